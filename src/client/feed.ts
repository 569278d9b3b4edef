import { z } from "zod";
import { createParser, type EventSourceMessage } from "eventsource-parser";
import { get, looseOrder, readPages, type Connection, type Order } from "./reads.ts";
import {
  BODY_BYTES_MAX,
  parseAnswer,
  toUnavailable,
  type ProviderAnswer,
  type ProviderRequest,
} from "../provider/exchange.ts";
import { tryParseJson } from "../domain/parseJson.ts";
import type { SourceFailure } from "../domain/source/errors.ts";
import { ProviderError } from "../provider/errors.ts";
import { withTimeout } from "../process/abort.ts";
import { addSeconds, parseInstant, type Instant } from "../domain/order/instant.ts";
import type { SendRequest } from "../provider/transport.ts";

/** A change of one order, or its state when the reading began. */
export interface Change {
  /** Its position in the feed; null for a state when the reading began. */
  readonly position: string | null;
  readonly reference: string;
  /** 1 for the first state of an order, then one more for each change. */
  readonly revision: number;
  readonly status: string;
  readonly previousStatus: string | null;
  /**
   * `snapshot`: the order's state when the reading began. `applied`: the order changed. `corrected`: the order went
   * back to an earlier updatedAt, because a read refuted the later one or that was dated ahead. `gone`: the provider no
   * longer has the order; `after` is null.
   */
  readonly verdict: "snapshot" | "applied" | "corrected" | "gone";
  /** The way in which the mirror learned of the change; null for a snapshot. */
  readonly cause: {
    /** webhook, poll, backfill, refetch, verify or write. */
    readonly via: string;
    readonly eventId?: string | null | undefined;
    readonly eventType?: string | null | undefined;
  } | null;
  /** The provider's time of the change. */
  readonly updatedAt: string;
  /** The mirror's time of the change. */
  readonly changedAt: string;
  /** Null for a snapshot, and if a state is no longer kept. */
  readonly changedFields: readonly string[] | null;
  /** Null for a new order and a snapshot, and if it is no longer kept. */
  readonly before: Order | null;
  /** Null for a gone order, and if it is no longer kept. */
  readonly after: Order | null;
}

/** Up to when the loop has had everything. */
export interface CompleteRecord {
  /**
   * Every change with an earlier `updatedAt` was given before this record. An earlier time than in the last record
   * means that a proof was withdrawn, because a change was found that it had missed.
   */
  readonly through: string;
  /** Orders excluded from this: they could not be read. Counted up to 1,000. */
  readonly exceptions: number;
  /** The position of the record in the feed. */
  readonly position: string;
}

export type OnComplete = (record: CompleteRecord) => void | Promise<void>;

export type FedChange = Change & { readonly position: string };
type Ask = (request: ProviderRequest) => Promise<ProviderAnswer>;

const PAGE_MAX = 500;
const ROUTE = "/v1/changes";

const knownMembers = z.object({
  position: z.string(),
  reference: z.string(),
  revision: z.number(),
  status: z.string(),
  /** Later releases may know more. */
  verdict: z.string(),
  updatedAt: z.string(),
  changedAt: z.string(),
  before: looseOrder.nullable(),
  after: looseOrder.nullable(),
});
/** The change as it was sent, with members that this release does not know. */
const changeSchema = z.custom<FedChange>((value) => knownMembers.safeParse(value).success);

const completeSchema = z.object({ through: z.string(), exceptions: z.number() });

const pageSchema = z.looseObject({
  data: z.array(changeSchema),
  hasMore: z.boolean(),
  next: z.string(),
  complete: completeSchema.nullish(),
});

/** The position behind the last change. If one arrives at the same moment, it is before this position or after it. */
export async function readFeedEnd(ask: Ask): Promise<string> {
  return (await readPage(ask, { after: "latest", limit: 1 })).next;
}

/** The changes that exist after a position, by pages; `next` is the position behind a page. */
export async function* readFeedPages(ask: Ask, after: string) {
  let position = after;
  let hasMore = true;
  while (hasMore) {
    const page = await readPage(ask, { after: position, limit: PAGE_MAX });
    yield page;
    position = page.next;
    ({ hasMore } = page);
  }
}

async function readPage(ask: Ask, { after, limit }: { after: string; limit: number }) {
  const query = new URLSearchParams({ after, limit: String(limit) });
  return parseAnswer(pageSchema, `GET ${ROUTE}`, await ask(get(ROUTE, { query })));
}

/** The mirror sends something every 15 s, if only a comment. */
const SILENCE_MAX_MS = 45_000;
const STREAM_ROUTE = "/v1/changes/stream";

interface StreamOptions {
  /** A position. */
  readonly after: string;
  readonly signal: AbortSignal;
  /** Called when the stream has begun. */
  readonly onOpen: () => void;
  readonly onComplete?: OnComplete | undefined;
  /** For tests, which do not wait for the product's spans. */
  readonly silenceMaxMs?: number | undefined;
}

/**
 * The changes after a position, as they come, over one connection, until the caller leaves the loop. Throws a
 * ProviderError when the connection ends, fails, is silent, or brings something else; the reason of the signal; and the
 * errors of `onOpen` and `onComplete`. The time that the caller takes for a change is no silence.
 */
export async function* streamChanges(
  connection: Connection,
  { after, signal, onOpen, onComplete, silenceMaxMs = SILENCE_MAX_MS }: StreamOptions,
): AsyncGenerator<FedChange, never, void> {
  const abort = new AbortController();
  const forward = () => abort.abort(signal.reason);
  signal.addEventListener("abort", forward);
  try {
    signal.throwIfAborted();
    const request = get(STREAM_ROUTE, { query: new URLSearchParams({ after }) });
    const response = await connection.open(request, abort);
    const type = response.headers.get("content-type") ?? "";
    if (response.body === null || !type.startsWith("text/event-stream"))
      throw makeFailure("was not answered with an event stream", "unreadable");
    onOpen();
    const messages: EventSourceMessage[] = [];
    const parser = createParser({
      maxBufferSize: BODY_BYTES_MAX,
      onEvent: (message) => messages.push(message),
      onError: ({ type }) => {
        if (type === "max-buffer-size-exceeded") throw makeFailure("sent too long an event", "unreadable");
      },
    });
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    for (;;) {
      const chunk = await withTimeout(reader.read(), silenceMaxMs).catch((error: unknown) => {
        throw toUnavailable(request, { error, signal: abort.signal });
      });
      if (chunk === "late") throw makeFailure("sent nothing for too long", "timeout");
      if (chunk.done) throw makeFailure("ended", "unavailable");
      parser.feed(decoder.decode(chunk.value, { stream: true }));
      for (const { event, data } of messages.splice(0)) {
        if (event === "change") yield readEvent(changeSchema, data);
        if (event === "complete") await onComplete?.(readEvent(recordSchema, data));
      }
    }
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", forward);
    abort.abort();
  }
}

const recordSchema = completeSchema.extend({ position: z.string() });

/** The errors do not quote the event: it may contain personal data. */
function readEvent<Schema extends z.ZodType>(schema: Schema, text: string): z.infer<Schema> {
  const read = schema.safeParse(tryParseJson(text));
  if (read.success) return read.data;
  throw makeFailure("sent an unreadable event", "unreadable");
}

function makeFailure(what: string, failure: SourceFailure): ProviderError {
  return new ProviderError(`GET ${STREAM_ROUTE} ${what}`, { failure });
}

/** Longer than any transaction of the mirror lasts that changes orders. */
const UNSEEN_SECONDS = 600;

/** Which states of orders a snapshot has shown, although the feed will bring them. */
export class Shown {
  readonly #revisions = new Map<string, number>();

  /** Whether the snapshot has shown this state of the order or a later one. */
  has({ reference, revision }: Pick<Change, "reference" | "revision">): boolean {
    const shown = this.#revisions.get(reference);
    if (shown === undefined || revision <= shown) return shown !== undefined;
    this.#revisions.delete(reference);
    return false;
  }

  add({ reference, revision }: Pick<Change, "reference" | "revision">): void {
    this.#revisions.set(reference, revision);
  }
}

/**
 * All orders, each once, by when the mirror first saw them: nothing moves in that order. `shown` learns of the states
 * that are younger than the start of the walk, or nearly: only those can be in the feed behind it.
 */
export async function* readSnapshot(deps: {
  ask: (request: ProviderRequest) => Promise<ProviderAnswer>;
  shown: Shown;
}): AsyncGenerator<Change, void, void> {
  const { ask, shown } = deps;
  let young: Instant | undefined;
  const send: SendRequest = async (request) => {
    const answer = await ask(request);
    young ??= addSeconds(answer.requestedAt, -UNSEEN_SECONDS);
    return answer;
  };
  for await (const page of readPages(send, { sort: "firstSeenAt", revisions: 1 }, undefined)) {
    for (const [index, order] of page.orders.entries()) {
      const listed = page.revisions[index];
      if (listed === undefined)
        throw new TypeError("the mirror lists no revisions: it is of an older release");
      const { revision, changedAt } = listed;
      const { reference, status, updatedAt } = order;
      if (young === undefined || parseInstant(changedAt) >= young) shown.add({ reference, revision });
      yield {
        position: null,
        reference,
        revision,
        status,
        previousStatus: null,
        verdict: "snapshot",
        cause: null,
        updatedAt,
        changedAt,
        changedFields: null,
        before: null,
        after: order,
      };
    }
  }
}
