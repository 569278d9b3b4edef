import pg from "pg";
import { withTimeout } from "../runtime/lifecycle/abort.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import type { Queryable } from "./database.ts";
import { makeLoop } from "../runtime/lifecycle/loop.ts";

const LISTEN_EVERY_MS = 5_000;
const PAUSE_AFTER_ERROR_MS = 1_000;
const CONNECT_TIMEOUT_MS = 2_000;
const STATEMENT_TIMEOUT_MS = 5_000;
const END_DEADLINE_MS = 1_000;

export interface ListenerOptions {
  /** Leads to the server itself: a pooler in transaction mode does not pass notifications on. */
  readonly databaseUrl: string;
  /** Distinguishes the connection from others in pg_stat_activity. */
  readonly applicationName: string;
  /** Runs `listen` on the connection: once it is open, and again every five seconds, which fails when it is broken. */
  readonly listen: (client: Queryable) => Promise<void>;
  /** Called with the payload of each notification; must not throw. */
  readonly onNotification: (payload: string) => void;
  readonly onError: (error: Error) => void;
  readonly clock: Clock;
}

export interface Listener {
  /** Stops listening; resolves within a second. */
  readonly close: () => Promise<void>;
}

/** Listens on its own connection, and reconnects until closed. What is sent in between is lost. */
export function startListener(options: ListenerOptions): Listener {
  const { databaseUrl, applicationName, listen, onNotification, onError, clock } = options;

  async function listenOnce(signal: AbortSignal): Promise<void> {
    const client = new pg.Client({
      connectionString: databaseUrl,
      application_name: applicationName,
      keepAlive: true,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: STATEMENT_TIMEOUT_MS,
    });
    client.on("error", onError);
    client.on("notification", ({ payload = "" }) => onNotification(payload));
    try {
      await client.connect();
      while (!signal.aborted) {
        await listen(client);
        await clock.sleep(LISTEN_EVERY_MS, signal);
      }
    } finally {
      await withTimeout(client.end(), END_DEADLINE_MS);
    }
  }

  const loop = makeLoop({
    run: listenOnce,
    everyMs: PAUSE_AFTER_ERROR_MS,
    onError: (error) => onError(error as Error),
    clock,
  });
  loop.start();
  return { close: loop.stop };
}
