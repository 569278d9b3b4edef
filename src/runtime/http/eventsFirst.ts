import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";

/** Health checks never wait: killing a process because its health check is slow would cost more than time. */
const HEALTH_PATH = /^\/(?:livez|readyz)(?:\?|$)/;
/** How long readers may delay an event that arrived in the same turn of the event loop. */
const SLICE_MS = 2;
const WAIT_MAX_MS = 1_000;
const BODY = '{"error":{"code":"temporarily_unavailable","message":"The server is busy."}}';
const HEADERS = {
  "Content-Type": "application/json",
  "Content-Length": Buffer.byteLength(BODY),
  "Cache-Control": "no-store",
  "Retry-After": "5",
};

interface Waiting {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly sinceMs: number;
}

/**
 * Passes requests to `listener` for 2 ms in each turn of the event loop, so that webhook events, which bypass it, are
 * read in between: hundreds of simultaneous requests would otherwise be one block of work. The others wait for the next
 * turns, first come, first served; after a second they get 503. Health checks never wait.
 */
export function eventsFirst(listener: RequestListener): RequestListener {
  const waiting: Waiting[] = [];
  let sliceEndsAtMs: number | undefined;

  /** True while this turn's time lasts; the first call of a turn starts it. */
  function hasTime(): boolean {
    const nowMs = performance.now();
    if (sliceEndsAtMs === undefined) {
      sliceEndsAtMs = nowMs + SLICE_MS;
      setImmediate(beginTurn);
    }
    return nowMs < sliceEndsAtMs;
  }

  function beginTurn(): void {
    sliceEndsAtMs = undefined;
    while (waiting.length > 0 && hasTime()) {
      const next = waiting.shift();
      if (next === undefined || next.response.destroyed) continue;
      if (performance.now() - next.sinceMs > WAIT_MAX_MS) next.response.writeHead(503, HEADERS).end(BODY);
      else listener(next.request, next.response);
    }
  }

  return (request, response) => {
    if (HEALTH_PATH.test(request.url ?? "") || (waiting.length === 0 && hasTime()))
      listener(request, response);
    else waiting.push({ request, response, sinceMs: performance.now() });
  };
}
