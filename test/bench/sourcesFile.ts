import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { WEBHOOK_SECRET } from "../support/signing/webhooks.ts";
import type { BenchDeps } from "./bench.ts";

/** Writes a SOURCES_FILE with `count` organizations, for the section; returns its path. */
export async function writeSources(count: number, onEnd: BenchDeps["onEnd"]): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-bench-sources-"));
  onEnd(() => rm(folder, { recursive: true, force: true }));
  const file = path.join(folder, "sources.json");
  await writeFile(file, JSON.stringify(Array.from({ length: count }, (_, n) => makeSource(n))));
  return file;
}

function makeSource(n: number) {
  return {
    sourceId: `org-${n}`,
    mode: "live",
    organization: `organization ${n}`,
    apiKey: `dos_live_${String(n).padStart(10, "0")}`,
    webhookSecrets: [WEBHOOK_SECRET],
  };
}
