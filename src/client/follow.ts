import { ProviderError } from "../provider/errors.ts";
import type { ProviderRequest, ProviderAnswer } from "../provider/exchange.ts";
import { backoffMs } from "../provider/transport.ts";
import { systemClock } from "../process/clock.ts";
import {
  Shown,
  readFeedEnd,
  readFeedPages,
  readSnapshot,
  streamChanges,
  type Change,
  type FedChange,
  type OnComplete,
} from "./feed.ts";
import type { Connection } from "./reads.ts";
import type { CursorStore } from "./cursorStores.sql.ts";

export interface ChangesOptions {
  /**
   * The beginning if the store has no position: with a `snapshot` of all orders (default), with the `beginning` of the
   * kept feed, with the `latest` change, or after a position.
   */
  readonly after?: "snapshot" | "beginning" | "latest" | (string & {}) | undefined;
  /** Keeps the position: the next loop continues where this one ended. */
  readonly store?: CursorStore | undefined;
  /** False: the loop ends with the last change that exists, for jobs that run from time to time. Default true. */
  readonly follow?: boolean | undefined;
  /** Ends the loop, without an error. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Called, and waited for, between two changes: when the loop has had every change up to an instant, and your program
   * has asked for the one after. The same record may come again after a reconnection.
   */
  readonly onComplete?: OnComplete | undefined;
  readonly onState?: ((state: FollowState) => void) | undefined;
  /** For tests, which do not wait for the product's spans. @internal */
  readonly silenceMaxMs?: number | undefined;
}

/** The activity of a reader. */
export type FollowState =
  /** The reader reads all orders; orders that do not come with verdict `snapshot` are no longer there. */
  | { readonly state: "snapshot" }
  /** The reader has every change and waits for the next one. */
  | { readonly state: "following" }
  /** The mirror cannot be read; it is asked again after `retryMs`. */
  | { readonly state: "waiting"; readonly error: ProviderError; readonly retryMs: number };

/** A loop over the changes. */
interface Reading {
  readonly connection: Connection;
  readonly options: ChangesOptions;
  readonly signal: AbortSignal;
  /** Sends until there is an answer, or a refusal that stays one. */
  readonly ask: (request: ProviderRequest) => Promise<ProviderAnswer>;
  /** Waits after the n-th failure in a row; throws an error after which asking again is of no use. */
  readonly waitAfter: (error: unknown, attempt: number) => Promise<void>;
}

/**
 * The changes of all orders, each once and in the order of the feed, for as long as the caller loops. It reconnects by
 * itself, waiting up to 8 s or as long as the mirror asks for.
 *
 * The position is saved when the caller asks for the next change, and first of all with `latest`: a program that ends
 * in between gets the last one again. A loop that began with a snapshot saves none before it has caught up with the
 * changes made meanwhile, so until then a restart begins with a new snapshot. If the mirror can no longer tell what a
 * reader has missed (410), there is a new snapshot, too; a reader that wants none gets a ProviderError with the code
 * `feed_restarted`. Throws other refusals, such as that of the token, and errors of the store.
 */
export async function* followChanges(
  connection: Connection,
  options: ChangesOptions,
): AsyncGenerator<Change, void, void> {
  const signal = options.signal ?? new AbortController().signal;
  const reading = makeReading(connection, options, signal);
  const { after = "snapshot", store } = options;
  try {
    let position = await findStart(reading, (await store?.load()) ?? after);
    for (;;) {
      try {
        if (position === undefined) yield* readFromSnapshot(reading);
        else yield* readFrom(reading, position);
        return;
      } catch (error) {
        const isRestarted = error instanceof ProviderError && error.status === 410;
        if (!isRestarted || after !== "snapshot") throw error;
        position = undefined;
      }
    }
  } catch (error) {
    if (!signal.aborted || error !== signal.reason) throw error;
  }
}

/** A position; undefined for a snapshot. */
async function findStart(reading: Reading, after: string): Promise<string | undefined> {
  if (after === "snapshot") return undefined;
  if (after === "latest") {
    const end = await readFeedEnd(reading.ask);
    // Otherwise a program that ends before it has done with the first change would never get that change.
    await reading.options.store?.save(end);
    return end;
  }
  return after === "beginning" ? "" : after;
}

async function* readFromSnapshot(reading: Reading): AsyncGenerator<Change, void, void> {
  const { options, ask, signal } = reading;
  options.onState?.({ state: "snapshot" });
  const start = await readFeedEnd(reading.ask);
  const shown = new Shown();
  yield* readSnapshot({ ask, shown });
  // Unsaved: after a restart `shown` would be unknown, and orders would go back to states before the snapshot.
  let position = start;
  for await (const change of readExisting(reading, start)) {
    position = change.position;
    if (!shown.has(change)) yield change;
  }
  signal.throwIfAborted();
  await options.store?.save(position);
  yield* readFrom(reading, position, shown);
}

async function* readFrom(reading: Reading, after: string, shown?: Shown): AsyncGenerator<Change, void, void> {
  const { store, follow = true } = reading.options;
  const changes = follow ? readStream(reading, after) : readExisting(reading, after);
  for await (const change of changes) {
    if (shown?.has(change) !== true) yield change;
    await store?.save(change.position);
  }
}

/** The changes that exist. */
async function* readExisting(
  { ask, options }: Reading,
  after: string,
): AsyncGenerator<FedChange, void, void> {
  for await (const { data, next, complete } of readFeedPages(ask, after)) {
    yield* data;
    if (complete) await options.onComplete?.({ ...complete, position: next });
  }
}

/** The changes as they come, over as many connections as it takes. */
async function* readStream({ connection, options, signal, waitAfter }: Reading, start: string) {
  let after = start;
  for (let attempt = 1; ; attempt += 1) {
    const onOpen = () => {
      attempt = 0;
      options.onState?.({ state: "following" });
    };
    try {
      const { silenceMaxMs, onComplete } = options;
      const stream = streamChanges(connection, { after, signal, onOpen, onComplete, silenceMaxMs });
      for await (const change of stream) {
        after = change.position;
        yield change;
      }
    } catch (error) {
      await waitAfter(error, Math.max(attempt, 1));
    }
  }
}

function makeReading(connection: Connection, options: ChangesOptions, signal: AbortSignal): Reading {
  async function waitAfter(error: unknown, attempt: number): Promise<void> {
    signal.throwIfAborted();
    if (!(error instanceof ProviderError) || error.retry === "never") throw error;
    // The same answer would come again.
    if (error.failure === "unreadable" || error.failure === "too_large") throw error;
    const askedMs = typeof error.retry === "object" ? error.retry.afterMs : 0;
    const retryMs = Math.max(askedMs, backoffMs(attempt));
    options.onState?.({ state: "waiting", error, retryMs });
    await systemClock.sleep(retryMs, signal);
  }
  async function ask(request: ProviderRequest): Promise<ProviderAnswer> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await connection.sendOnce(request, { signal });
      } catch (error) {
        await waitAfter(error, attempt);
      }
    }
  }
  return { connection, options, signal, ask, waitAfter };
}
