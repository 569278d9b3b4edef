import { execFile } from "node:child_process";
import { stat } from "node:fs/promises";
import { promisify } from "node:util";
import { UnavailableError } from "../../domain/errors.ts";
import { ENVIRONMENT } from "../config/environment.ts";

const execFileAsync = promisify(execFile);

/** The account that runs the server when we are root, which Postgres refuses. */
export interface ServerUser {
  readonly uid: number;
  readonly gid: number;
}

const SERVER_ACCOUNTS = ["postgres", "nobody"];
/** The server's name for its folder where the account may not pass through the folders above it. */
export const CURRENT_FOLDER = "/proc/self/cwd";
/** All that the programs need of our environment; on Windows nothing starts without the last three. */
const INHERITED = ["PATH", "TZ", "SystemRoot", "TEMP", "TMP"];

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

/**
 * How the programs name `folder` when they run in it. Under root a data folder often lies below a folder that only
 * root may enter. The process that starts the server enters it while it is still root, and the kernel starts from a
 * current folder without asking again for the way to it, so the account needs no right beyond its own folder.
 */
export function nameOfCurrent(folder: string, user: ServerUser | undefined): string {
  return user && process.platform === "linux" ? CURRENT_FOLDER : folder;
}

/**
 * Runs a server program in `folder` to its end, as `user` if given, with nothing of our environment but where programs
 * and time zones are. Resolves with what it printed; rejects with that, too, when it fails.
 */
export async function runServerProgram(
  program: string,
  args: readonly string[],
  { folder, user }: { folder: string; user: ServerUser | undefined },
): Promise<string> {
  const env: NodeJS.Dict<string> = { LC_ALL: "C" };
  for (const name of INHERITED) if (ENVIRONMENT[name] !== undefined) env[name] = ENVIRONMENT[name];
  return (await execFileAsync(program, [...args], { cwd: folder, env, ...user })).stdout;
}
