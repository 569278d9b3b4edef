import { isChange, type Decision } from "../apply/applySubjects.ts";
import { CONNECT_TIMEOUT_MS, withClient, type Pool } from "../database/database.ts";
import type { Clock } from "../process/clock.ts";
import { makeLoop } from "../process/loop.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { listenForChanges, notifyChanges } from "./changeFeed.sql.ts";

/** At most 200 announcements a second and process: each one covers every change that was committed before it. */
const PAUSE_MS = 5;
/** Listening again fails if the connection is broken. */
const LISTEN_EVERY_MS = 5_000;
const PAUSE_AFTER_ERROR_MS = 1_000;
const LISTENER = {
  application_name: "order-mirror changes",
  keepAlive: true,
  connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  query_timeout: 5_000,
};

/**
 * Announces committed changes to the processes that stream them. An announcement may be lost: readers then see the
 * changes at their next look.
 *
 * A notification in the transaction of the changes would be simpler, but its commit takes a lock of the whole server,
 * and writers would wait for each other.
 */
export function makeAnnouncer({ pool, clock }: { pool: Pool; clock: Clock }) {
  const loop = makeLoop({
    async run(signal) {
      // What keeps Postgres from taking an announcement keeps it from taking changes, and that is logged.
      await notifyChanges(pool).catch(() => undefined);
      await clock.sleep(PAUSE_MS, signal);
    },
    everyMs: Infinity,
    pausesFirst: true,
    onError: () => undefined,
    clock,
  });
  loop.start();
  return {
    /** Announces the changes among committed decisions, soon. Never throws and never waits. */
    announce(decisions: readonly Decision[]): void {
      if (decisions.some(isChange)) loop.wake();
    },
    close: loop.stop,
  };
}

/**
 * Calls `onChanges`, which must not throw, whenever changes are announced. It has its own connection, and reconnects
 * until closed; what is announced in between is lost.
 */
export function listenForAnnouncements(deps: {
  /** Leads to the server itself: a pooler in transaction mode does not pass notifications on. */
  readonly databaseUrl: string;
  readonly onChanges: () => void;
  readonly clock: Clock;
  readonly logger: Logger;
}): { readonly close: () => Promise<void> } {
  const { databaseUrl, onChanges, clock, logger } = deps;
  const place = { connectionString: databaseUrl, ...LISTENER };
  const loop = makeLoop({
    run: (signal) =>
      withClient(place, async (client) => {
        client.on("notification", onChanges);
        while (!signal.aborted) {
          await listenForChanges(client);
          await clock.sleep(LISTEN_EVERY_MS, signal);
        }
      }),
    everyMs: PAUSE_AFTER_ERROR_MS,
    onError: (error) =>
      logger.debug({ err: error }, "changes cannot be listened for and are looked for instead"),
    clock,
  });
  loop.start();
  return { close: loop.stop };
}
