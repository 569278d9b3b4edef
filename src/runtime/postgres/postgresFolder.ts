import { randomBytes } from "node:crypto";
import { constants, existsSync } from "node:fs";
import { access, chown, mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { ConfigurationError, UnavailableError } from "../../domain/errors.ts";
import type { PostgresBinaries } from "./postgresBinaries.ts";
import { nameOfCurrent, runServerProgram } from "./serverAccount.ts";
import type { ServerUser } from "./serverAccount.ts";
import { describeServerFailure, findFix } from "./serverFailure.ts";

const SUPERUSER = "postgres";
/** Within the data folder. */
const CLUSTER = "postgres";
const NEW_CLUSTER = "postgres-new";
const COPIED_CLUSTER = "postgres-copied";
/** Within the cluster. */
export const SERVER_LOG = "server.log";

export type PostgresFolder = Awaited<ReturnType<typeof openPostgresFolder>>;

/** The folder, created if missing. Throws ConfigurationError when it cannot be used or is not ours. */
export async function openPostgresFolder(dataDir: string) {
  const root = await openDataFolder(dataDir);
  const cluster = path.join(root, CLUSTER);
  await assertOurs(cluster);
  return {
    root,
    cluster,
    /** A complete copy of the cluster by a newer Postgres, about to replace it. */
    copied: path.join(root, COPIED_CLUSTER),
    serverLog: path.join(cluster, SERVER_LOG),
    password: path.join(root, "postgres-password"),
    /** Held while the server is set up, started or stopped. */
    lock: path.join(root, "postgres-lock"),
    /** One note per process that uses the server. */
    users: path.join(root, "postgres-users"),
  };
}

/** The absolute path, created if missing, for this account only. Throws ConfigurationError if it is unusable. */
export async function openDataFolder(dataDir: string): Promise<string> {
  const root = path.resolve(dataDir);
  try {
    await mkdir(root, { recursive: true, mode: 0o700 }).catch(() => makeOneByOne(root));
    await access(root, constants.R_OK | constants.W_OK | constants.X_OK);
    return root;
  } catch (error) {
    throw new ConfigurationError(
      `DATA_DIR ${root} cannot be created or written to: ${describeServerFailure(error)}.`,
      { cause: error, fix: "Point DATA_DIR at a folder that this account may write to." },
    );
  }
}

/** On a read-only file system, Node reports ENOENT when it also creates the parent folders; for one folder, the cause. */
async function makeOneByOne(folder: string): Promise<void> {
  const parent = path.dirname(folder);
  if (!existsSync(parent)) await makeOneByOne(parent);
  await mkdir(folder, { mode: 0o700 });
}

async function assertOurs(cluster: string): Promise<void> {
  const found = await stat(cluster).catch(() => undefined);
  if (!found) return;
  const uid = process.getuid?.();
  if (uid !== undefined && uid !== 0 && uid !== found.uid) {
    throw new ConfigurationError(`${cluster} belongs to another account, which set it up.`, {
      fix: "Start as that account, or point DATA_DIR at another folder.",
    });
  }
  if (!isCluster(cluster)) {
    throw new ConfigurationError(`${cluster} exists but is not a Postgres data folder.`, {
      fix: "Move it away, or point DATA_DIR at another folder.",
    });
  }
}

export function isCluster(cluster: string): boolean {
  return existsSync(path.join(cluster, "PG_VERSION"));
}

/** True when a Postgres was set up in the data folder. */
export function holdsCluster(dataDir: string): boolean {
  return [CLUSTER, COPIED_CLUSTER].some((name) => isCluster(path.join(dataDir, name)));
}

/** Makes connection strings as superuser, by port. Throws ConfigurationError when there is no password. */
export async function readConnection(folder: PostgresFolder): Promise<(port: number) => string> {
  const secret = encodeURIComponent(await readPassword(folder));
  return (port) => `postgres://${SUPERUSER}:${secret}@127.0.0.1:${port}/postgres`;
}

/** The superuser's password. Throws ConfigurationError when it cannot be read. */
export async function readPassword({ cluster, password }: PostgresFolder): Promise<string> {
  try {
    return await readFile(password, "utf8");
  } catch (error) {
    throw new ConfigurationError(
      `The password of the Postgres in ${cluster} cannot be read from ${password}.`,
      {
        cause: error,
        fix: "Put the file back, or point DATA_DIR at another folder.",
      },
    );
  }
}

/**
 * Creates a new cluster with a new password. It is created in a temporary folder, which is then renamed, so that a kill
 * midway leaves nothing that looks complete. Throws UnavailableError when that fails. Call it under the lock.
 */
export async function setUpCluster(deps: {
  folder: PostgresFolder;
  binaries: PostgresBinaries;
  user: ServerUser | undefined;
  /** Whether the new files must survive a power failure. */
  durable: boolean;
  /** Where the cluster is moved to, with the password that the folder has; by default its own place, with a new one. */
  besides?: { readonly cluster: string; readonly password: string };
}): Promise<void> {
  const { folder, binaries, user, durable, besides } = deps;
  const fresh = path.join(folder.root, `${NEW_CLUSTER}-${process.pid}`);
  const cluster = path.join(fresh, "cluster");
  const secret = besides?.password ?? randomBytes(24).toString("base64url");
  try {
    await removeLeftovers(folder.root);
    await mkdir(cluster, { recursive: true, mode: 0o700 });
    await writeFile(path.join(fresh, "password"), secret, { mode: 0o600 });
    if (user) {
      for (const name of ["", "cluster", "password"]) await chown(path.join(fresh, name), user.uid, user.gid);
    }
    const place = [
      `--pgdata=${nameOfCurrent(cluster, user)}`,
      `--username=${SUPERUSER}`,
      "--pwfile=../password",
    ];
    const locale = ["--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8"];
    const safety = ["--auth=scram-sha-256", ...(durable ? [] : ["--no-sync"])];
    await runServerProgram(binaries.initdb, [...place, ...locale, ...safety], { folder: cluster, user });
    if (besides === undefined) await writeFile(folder.password, secret, { mode: 0o600 });
    await rename(cluster, besides?.cluster ?? folder.cluster);
  } catch (error) {
    throw new UnavailableError(
      `The embedded Postgres could not be set up in ${folder.root}: ${describeServerFailure(error)}.`,
      {
        cause: error,
        fix: `${findFix(error) ?? "Point DATA_DIR at another folder"}, or set DATABASE_URL to a Postgres of your own.`,
      },
    );
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
}

/** Removes what killed processes left of new clusters; under the lock, nobody is creating one. */
async function removeLeftovers(root: string): Promise<void> {
  for (const name of await readdir(root)) {
    if (name.startsWith(NEW_CLUSTER)) await rm(path.join(root, name), { recursive: true, force: true });
  }
}
