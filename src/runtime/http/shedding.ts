import type { RequestListener } from "node:http";

/** A process that is killed for being slow to say that it lives would lose more than time. */
const HEALTH_PATH = /^\/(?:livez|readyz)(?:\?|$)/;
const TICK_MS = 50;
/** So long may the work of one turn of the event loop hold up an event that came meanwhile. */
const TURN_MAX_MS = 500;
const BODY = '{"error":{"code":"temporarily_unavailable","message":"The server is busy."}}';
const HEADERS = {
  "Content-Type": "application/json",
  "Content-Length": Buffer.byteLength(BODY),
  "Cache-Control": "no-store",
  "Retry-After": "5",
};

/**
 * Passes requests to `listener` as long as the event loop turns fast enough, and otherwise answers 503 at once: with more
 * work in one turn, webhook events that came meanwhile would wait for all of it. Health checks are always forwarded.
 */
export function shedWhenBusy(
  listener: RequestListener,
  { turnMaxMs = TURN_MAX_MS }: { turnMaxMs?: number } = {},
): RequestListener {
  let tickedAtMs = performance.now();
  // Timers run once in a turn, before requests are read: a tick that is late says how long this turn has lasted.
  setInterval(() => (tickedAtMs = performance.now()), TICK_MS).unref();
  return (request, response) => {
    const turnMs = performance.now() - tickedAtMs - TICK_MS;
    if (turnMs <= turnMaxMs || HEALTH_PATH.test(request.url ?? "")) listener(request, response);
    else response.writeHead(503, HEADERS).end(BODY);
  };
}
