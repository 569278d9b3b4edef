import { createParser } from "eventsource-parser";
import type { EventSourceMessage } from "eventsource-parser";
import { toUnavailable } from "../provider/http/exchange.ts";
import { ProviderUnavailableError } from "../provider/errors.ts";
import type { Unavailability } from "../provider/errors.ts";
import { unlessLate } from "../runtime/lifecycle/abort.ts";
import type { Change, CompleteRecord, OnComplete } from "./change.ts";
import { get } from "./connection.ts";
import type { Connection } from "./connection.ts";

/** The mirror sends something every 15 s, if only a comment. */
const SILENCE_MAX_MS = 45_000;
const ROUTE = "/v1/changes/stream";

export interface StreamOptions {
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
 * The changes after a position, as they come, over one connection. Ends when the mirror ends the stream; throws a
 * ProviderError when the connection fails or is silent, and the reason of the signal. The time that the caller takes
 * for a change is no silence.
 */
export async function* streamChanges(
  connection: Connection,
  { after, signal, onOpen, onComplete, silenceMaxMs = SILENCE_MAX_MS }: StreamOptions,
): AsyncGenerator<Change & { readonly position: string }, void, void> {
  const request = get(ROUTE, { query: new URLSearchParams({ after }) });
  const abort = new AbortController();
  const forward = () => abort.abort(signal.reason);
  signal.addEventListener("abort", forward);
  try {
    signal.throwIfAborted();
    const response = await connection.open(request, abort);
    if (response.body === null || !isEventStream(response))
      throw makeFailure("was not answered with an event stream", "unreadable");
    onOpen();
    const messages: EventSourceMessage[] = [];
    const parser = createParser({ onEvent: (message) => messages.push(message) });
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    for (;;) {
      const chunk = await unlessLate(reader.read(), silenceMaxMs);
      if (chunk === "late") throw makeFailure("sent nothing for too long", "timeout");
      if (chunk.done) return;
      parser.feed(decoder.decode(chunk.value, { stream: true }));
      for (const { event, data } of messages.splice(0)) {
        if (event === "change") yield JSON.parse(data) as Change & { position: string };
        if (event === "complete") await onComplete?.(JSON.parse(data) as CompleteRecord);
      }
    }
  } catch (error) {
    signal.throwIfAborted();
    throw toUnavailable(request, { status: null, error, signal: abort.signal });
  } finally {
    signal.removeEventListener("abort", forward);
    abort.abort();
  }
}

const isEventStream = ({ headers }: Response) =>
  (headers.get("content-type") ?? "").startsWith("text/event-stream");

function makeFailure(what: string, reason: Unavailability): ProviderUnavailableError {
  const facts = { status: null, code: null, requestId: null };
  return new ProviderUnavailableError(`GET ${ROUTE} ${what}`, facts, { reason });
}
