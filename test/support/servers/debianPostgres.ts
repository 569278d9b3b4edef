import { execFileSync } from "node:child_process";
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { findFreePort } from "../../../src/postgres/freePort.ts";

const VERSIONS = "/usr/lib/postgresql";
const [newest] = existsSync(VERSIONS)
  ? readdirSync(VERSIONS)
      .filter((version) => existsSync(path.join(VERSIONS, version, "bin/initdb")))
      .sort((left, right) => Number(right) - Number(left))
  : [];

/** Whether the system's own Postgres is installed, with its client programs. */
export const hasDebianPostgres = newest !== undefined;
export type DebianPostgres = Awaited<ReturnType<typeof startDebianPostgres>>;

/** A server of the system's own Postgres, in a separate folder. */
export async function startDebianPostgres() {
  const home = mkdtempSync(path.join(tmpdir(), "order-mirror-debian-postgres-"));
  const idOf = (what: string) => Number(execFileSync("id", [what, "postgres"], { encoding: "utf8" }));
  // Postgres refuses root.
  const account = process.getuid?.() === 0 ? { uid: idOf("-u"), gid: idOf("-g") } : undefined;
  if (account !== undefined) chownSync(home, account.uid, account.gid);
  chmodSync(home, 0o700);
  const run = (program: string, args: readonly string[]) =>
    execFileSync(path.join(VERSIONS, newest ?? "", "bin", program), args, {
      ...account,
      cwd: home,
      stdio: "ignore",
    });
  const cluster = path.join(home, "cluster");
  run("initdb", ["--pgdata", cluster, "--username", "postgres", "--auth", "trust", "--no-sync"]);
  const port = await findFreePort();
  const options = `-c port=${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=`;
  run("pg_ctl", ["start", "-w", "-D", cluster, "-l", path.join(home, "log"), "-o", options]);
  return {
    /** Connection string of the database `postgres`, as administrator. */
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    port,
    remove() {
      run("pg_ctl", ["stop", "-D", cluster, "-m", "immediate"]);
      rmSync(home, { recursive: true, force: true });
    },
  };
}
