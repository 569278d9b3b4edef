import { appendFile, chmod, chown, cp, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { migrate } from "../../src/database/schema/migrations.ts";
import { migrateQueue } from "../../src/queue/backends/migrateQueue.ts";
import { startEmbeddedPostgres } from "../../src/runtime/postgres/embeddedPostgres.ts";
import { findFreePort } from "../../src/runtime/postgres/freePort.ts";

/** A migrated server and a hot standby that follows it by streaming replication. */
export interface ReplicatedPostgres {
  readonly primaryUrl: string;
  readonly replicaUrl: string;
  /** Stops both and removes their data. */
  remove(): Promise<void>;
}

/** The standby begins as a copy of the primary at rest, so that pg_basebackup, which npm does not bring, is not needed. */
export async function startReplicatedPostgres(): Promise<ReplicatedPostgres> {
  const dataDir = await mkdtemp(path.join(tmpdir(), "order-mirror-primary-"));
  const replicaDir = await mkdtemp(path.join(tmpdir(), "order-mirror-replica-"));
  const port = await findFreePort();
  const settingUp = await startEmbeddedPostgres({ dataDir, port, durable: false });
  await migrate(settingUp.url);
  await migrateQueue(settingUp.url);
  await settingUp.stop();
  await copyCluster(dataDir, replicaDir, settingUp.url);
  const primary = await startEmbeddedPostgres({ dataDir, port, durable: false });
  const replica = await startEmbeddedPostgres({ dataDir: replicaDir, durable: false });
  return {
    primaryUrl: primary.url,
    replicaUrl: replica.url,
    async remove() {
      await replica.stop();
      await primary.stop();
      for (const dir of [dataDir, replicaDir]) await rm(dir, { recursive: true, force: true });
    },
  };
}

async function copyCluster(dataDir: string, replicaDir: string, primaryUrl: string): Promise<void> {
  const [from, to] = [path.join(dataDir, "postgres"), path.join(replicaDir, "postgres")];
  const { uid, gid } = await stat(from);
  await cp(path.join(dataDir, "postgres-password"), path.join(replicaDir, "postgres-password"));
  await cp(from, to, { recursive: true, preserveTimestamps: true });
  await writeFile(path.join(to, "standby.signal"), "");
  const { hostname, port, username, password } = new URL(primaryUrl);
  const conninfo = `host=${hostname} port=${port} user=${username} password=${decodeURIComponent(password)}`;
  await appendFile(path.join(to, "postgresql.auto.conf"), `primary_conninfo = '${conninfo}'\n`);
  if (process.getuid?.() === 0) await giveTo(to, uid, gid);
}

/** A copy made by root belongs to root, which the server refuses. */
async function giveTo(folder: string, uid: number, gid: number): Promise<void> {
  await chmod(folder, 0o700);
  await chown(folder, uid, gid);
  for (const entry of await readdir(folder, { recursive: true }))
    await chown(path.join(folder, entry), uid, gid);
}
