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
/** The server's name for its folder when the account may not enter the folders above it. */
export const CURRENT_FOLDER = "/proc/self/cwd";
/** All environment variables that the programs need; on Windows nothing starts without the last three. */
const INHERITED = ["PATH", "TZ", "SystemRoot", "TEMP", "TMP"];

/**
 * The account to run the server as: undefined unless this process is root. It is the owner of `cluster`, because
 * Postgres accepts no other account; for a new cluster it is `postgres`, or else `nobody`.
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
 * How the programs name `folder` when they run in it. Under root, a data folder is often below a folder that only root
 * may enter. The process that starts the server enters it while it is still root. The kernel does not check the path to
 * the current folder again, so the account needs no rights except on its own folder.
 */
export function nameOfCurrent(folder: string, user: ServerUser | undefined): string {
  return user && process.platform === "linux" ? CURRENT_FOLDER : folder;
}

/**
 * Runs a server program in `folder` to its end, as `user` if given. From our environment it gets only the places of
 * programs and time zones. Resolves with its output; if it fails, rejects with an error that includes the output.
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
