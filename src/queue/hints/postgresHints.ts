import pg from "pg";
import { HINT_LISTENER, listenForHints, notifyHint, readListenerPlace } from "./hints.sql.ts";
import type { ListenerPlace } from "./hints.sql.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { makeLoop } from "../../runtime/lifecycle/loop.ts";
import type { OnQueueError } from "../backends/backend.ts";
import { unlessLate } from "../../runtime/lifecycle/abort.ts";
import { readHint, writeHint } from "./hints.ts";
import type { Hint, Hints, Listener } from "./hints.ts";

/** How soon a worker that came or went is noticed by the others, and a broken line by its own. */
const LOOK_MS = 5_000;
const PAUSE_AFTER_ERROR_MS = 1_000;
const CONNECT_TIMEOUT_MS = 2_000;
const STATEMENT_TIMEOUT_MS = 5_000;
const END_DEADLINE_MS = 1_000;

interface ListenDeps {
  /** Leads to the server itself: a pooler in transaction mode passes no notifications on. */
  readonly databaseUrl: string;
  readonly onError: OnQueueError;
  readonly clock: Clock;
}

/**
 * Hints by NOTIFY. All workers hear all of them, and each takes its share: where two disagree about who listens, a hint
 * is taken twice or by nobody, for some seconds, and the job that follows it makes up for that.
 */
export function makePostgresHints(deps: ListenDeps & { readonly pool: pg.Pool }): Hints {
  return {
    send: (hint) => notifyHint(deps.pool, writeHint(hint)),
    listen: (onHint) => listenOn(deps, onHint),
  };
}

function listenOn({ databaseUrl, onError, clock }: ListenDeps, onHint: (hint: Hint) => void): Listener {
  async function listenOnce(signal: AbortSignal): Promise<void> {
    let share: ListenerPlace = { place: 0, listeners: 1 };
    const client = new pg.Client({
      connectionString: databaseUrl,
      application_name: HINT_LISTENER,
      keepAlive: true,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: STATEMENT_TIMEOUT_MS,
    });
    client.on("error", onError);
    client.on("notification", ({ payload = "" }) => {
      const hint = readHint(payload);
      if (hint && (hint.seqs[0] ?? 0) % share.listeners === share.place) onHint(hint);
    });
    try {
      await client.connect();
      await listenForHints(client);
      while (!signal.aborted) {
        share = await readListenerPlace(client);
        await clock.sleep(LOOK_MS, signal);
      }
    } finally {
      await unlessLate(client.end(), END_DEADLINE_MS);
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
