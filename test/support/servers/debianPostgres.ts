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
/** The folder with its programs. */
const debianPostgresPrograms = path.join(VERSIONS, newest ?? "", "bin");

/** The account to run its server with, because Postgres refuses root; undefined when the tests do not run as root. */
function debianPostgresAccount(): { uid: number; gid: number } | undefined {
  return process.getuid?.() === 0 ? findAccount("postgres") : undefined;
}

export interface DebianPostgres {
  /** Connection string of the database `postgres`, as administrator. */
  readonly url: string;
  readonly port: number;
  readonly remove: () => void;
}

/** A server of the system's own Postgres, in a separate folder. */
export async function startDebianPostgres(): Promise<DebianPostgres> {
  const home = mkdtempSync(path.join(tmpdir(), "order-mirror-debian-postgres-"));
  const account = debianPostgresAccount();
  if (account !== undefined) chownSync(home, account.uid, account.gid);
  chmodSync(home, 0o700);
  const run = (program: string, args: readonly string[]) =>
    execFileSync(path.join(debianPostgresPrograms, program), args, {
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
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    port,
    remove() {
      run("pg_ctl", ["stop", "-D", cluster, "-m", "immediate"]);
      rmSync(home, { recursive: true, force: true });
    },
  };
}

function findAccount(name: string): { uid: number; gid: number } {
  const [uid, gid] = ["-u", "-g"].map((what) =>
    Number(execFileSync("id", [what, name], { encoding: "utf8" })),
  );
  return { uid: uid ?? 0, gid: gid ?? 0 };
}
