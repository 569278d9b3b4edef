import { makeRolesStep } from "../../database/logins.ts";
import { migrate } from "../../database/migrations.ts";
import type { Step } from "../../database/migrations.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";

/** Brings mirror and queue to the newest schema, and gives the processes' roles their rights where `roles` says so. */
export async function migrateAll(
  databaseUrl: string,
  logger: Logger,
  { roles = null }: { roles?: "when new" | "always" | null } = {},
): Promise<string[]> {
  // Only here: a poller never needs BullMQ, which is a third of its memory.
  const { migrateQueue, QUEUE_VERSION } = await import("../../queue/postgresBackend.ts");
  const queue: Step = { name: "queue", checksum: QUEUE_VERSION, run: () => migrateQueue(databaseUrl) };
  const steps = roles === null ? [queue] : [queue, await makeRolesStep({ always: roles === "always" })];
  const ran = await migrate(databaseUrl, { steps });
  if (ran.length > 0) logger.info({ migrations: ran }, "migrated the database");
  return ran;
}
