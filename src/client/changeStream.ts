import { createParser } from "eventsource-parser";
import type { EventSourceMessage } from "eventsource-parser";
import type { z } from "zod";
import { tryParseJson } from "../domain/parseJson.ts";
import { toUnavailable } from "../provider/exchange.ts";
import { BODY_BYTES_MAX } from "../provider/exchange.ts";
import type { SourceFailure } from "../domain/source/errors.ts";
import { ProviderError } from "../provider/errors.ts";
import { unlessLate } from "../runtime/lifecycle/abort.ts";
import type { OnComplete } from "./change.ts";
import { get } from "./connection.ts";
import type { Connection } from "./connection.ts";
import { changeSchema, completeSchema, positionSchema } from "./feedPages.ts";
import type { FedChange } from "./feedPages.ts";

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
    const request = get(ROUTE, { query: new URLSearchParams({ after }) });
    const response = await connection.open(request, abort);
    if (response.body === null || !isEventStream(response))
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
      const chunk = await unlessLate(reader.read(), silenceMaxMs).catch((error: unknown) => {
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

const recordSchema = completeSchema.extend({ position: positionSchema });

/** The errors do not quote the event: it may contain personal data. */
function readEvent<Schema extends z.ZodType>(schema: Schema, text: string): z.infer<Schema> {
  const read = schema.safeParse(tryParseJson(text));
  if (read.success) return read.data;
  throw makeFailure("sent an unreadable event", "unreadable");
}

const isEventStream = ({ headers }: Response) =>
  (headers.get("content-type") ?? "").startsWith("text/event-stream");

function makeFailure(what: string, failure: SourceFailure): ProviderError {
  return new ProviderError(`GET ${ROUTE} ${what}`, { failure });
}
