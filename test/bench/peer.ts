import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { startChild } from "./children.ts";
import type { Child } from "./children.ts";

/** The nearest other program: it mirrors Stripe's objects into Postgres. */
const PACKAGES = ["@supabase/stripe-sync-engine@0.48.5", "stripe@23.1.0"];

/** Installs the peer into a folder of its own, removed at the end, and starts it on a database of its own. */
export async function startPeer({
  databaseUrl,
  onEnd,
}: {
  databaseUrl: string;
  onEnd: (stop: () => Promise<void>) => void;
}): Promise<Child> {
  const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-bench-peer-"));
  onEnd(() => rm(folder, { recursive: true, force: true }));
  const options = ["--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts"];
  await promisify(execFile)("npm", ["install", ...options, ...PACKAGES], { cwd: folder });
  const peer = await startChild("peerProcess.ts", { args: [folder], env: { DATABASE_URL: databaseUrl } });
  onEnd(peer.stop);
  return peer;
}
