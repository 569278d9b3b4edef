import { execFile } from "node:child_process";
import { appendFile, chown, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import pg from "pg";

const run = promisify(execFile);

/**
 * Backs up the files of a running server as pg_basebackup does, which npm's binaries do not include. A server that is
 * started in `to` recovers from the backup as `signal` says, with these settings.
 */
export async function backUp(options: {
  url: string;
  /** Data folders as startEmbeddedPostgres knows them. */
  from: string;
  to: string;
  signal: "recovery.signal" | "standby.signal";
  settings: Readonly<Record<string, string>>;
}): Promise<void> {
  const { url, from, to, signal, settings } = options;
  const client = new pg.Client(url);
  await client.connect();
  await client.query("select pg_backup_start('test', true)");
  await run("cp", ["-a", from, to]).catch((error: { stderr?: string }) => {
    // Files of the running server come and go; the WAL has their content.
    if (!/cannot (stat|open)/.test(error.stderr ?? "")) throw error as Error;
  });
  const { rows } = await client.query<{ labelfile: string }>("select labelfile from pg_backup_stop(false)");
  await run("cp", ["-a", `${from}/postgres/pg_wal/.`, `${to}/postgres/pg_wal/`]);
  await client.end();
  const cluster = path.join(to, "postgres");
  await rm(path.join(cluster, "postmaster.pid"), { force: true });
  await rm(path.join(to, "postgres-users"), { recursive: true, force: true });
  await writeFile(path.join(cluster, "backup_label"), rows[0]?.labelfile ?? "");
  await writeFile(path.join(cluster, signal), "");
  const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value}'\n`);
  await appendFile(path.join(cluster, "postgresql.auto.conf"), lines.join(""));
  const { uid, gid } = await stat(cluster);
  for (const name of ["backup_label", signal]) await chown(path.join(cluster, name), uid, gid);
}
