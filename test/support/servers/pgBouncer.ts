import { spawn } from "node:child_process";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { vi } from "vitest";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { runOnServer, withDatabase } from "./database.ts";
import { has } from "../programs/program.ts";

/** Debian installs it in a folder that only root's PATH has. */
const BINARY = ["pgbouncer", "/usr/sbin/pgbouncer"].find(has);

export const canStartPgBouncer = BINARY !== undefined;

if (!canStartPgBouncer) {
  // oxlint-disable-next-line no-console -- whoever runs the tests must know what they did not prove
  console.warn("NOT RUN: the tests behind PgBouncer. There is no pgbouncer.");
}

/** A pooler in transaction mode in front of `databaseUrl`, with fewer connections to the server than any client opens. */
export async function startPgBouncer(databaseUrl: string) {
  const target = new URL(databaseUrl);
  const port = await findFreePort();
  const dir = await mkdtemp(path.join(tmpdir(), "order-mirror-pgbouncer-"));
  const config = path.join(dir, "pgbouncer.ini");
  const credentials = [`user=${target.username}`, `password=${decodeURIComponent(target.password)}`];
  await writeFile(
    config,
    `[databases]
* = host=${target.hostname} port=${target.port} ${credentials.join(" ")}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
admin_users = ${target.username}
pool_mode = transaction
default_pool_size = 2
`,
  );
  // Under root it switches to another account, which must be able to read the file.
  await chmod(dir, 0o755);
  const asOther = process.getuid?.() === 0 ? ["-u", "nobody"] : [];
  const server = spawn(BINARY ?? "", [...asOther, config], { stdio: "ignore" });
  const ended = new Promise((resolve) => server.once("exit", resolve));
  const url = new URL(databaseUrl);
  url.port = String(port);
  const admin = withDatabase(url.href, "pgbouncer");
  await vi.waitFor(() => runOnServer(admin, "show version"), { timeout: 60_000, interval: 20 });
  return {
    /** The same database, through the pooler. */
    url: url.href,
    /** Transactions that went through. */
    async countTransactions() {
      const rows = await runOnServer(admin, "show stats_totals");
      return rows.reduce((sum, row) => sum + Number(row["xact_count"] ?? 0), 0);
    },
    async stop() {
      server.kill("SIGTERM");
      await ended;
      await rm(dir, { recursive: true, force: true });
    },
  };
}
