import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { makeLogSampler } from "../runtime/telemetry/logSampler.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";

// What the endpoint answers, and what it logs of the requests that it refuses.

const RETRY_AFTER_SECONDS = 5;
const LOG_INTERVAL_MS = 10_000;
const NAMES_MAX = 10;
/** Headers in which a signature may be hidden from our scheme: a hint at a wrong configuration. */
const TELLING_NAME = /sig|hmac|digest|timestamp/i;

interface Answer {
  readonly status: number;
  readonly headers: OutgoingHttpHeaders;
  /** A string, so that Node sends head and body in one system call; a Buffer would need two. */
  readonly body: string;
}

function answerWith(status: number, content: object, headers: OutgoingHttpHeaders = {}): Answer {
  const body = JSON.stringify(content);
  const length = Buffer.byteLength(body);
  return {
    status,
    body,
    headers: { "Content-Type": "application/json", "Content-Length": length, ...headers },
  };
}

/** Without a body, which no sender reads: a head alone saves a bare handler a tenth of its time. */
const RECEIVED: Answer = { status: 200, headers: { "Content-Length": 0 }, body: "" };
const RETRY_LATER = { "Retry-After": String(RETRY_AFTER_SECONDS) };

/**
 * Every answer of the endpoint, by outcome. All are constant: an answer never reveals more than its status about the
 * failed check. A duplicate is answered like the first one; otherwise its sender would keep trying.
 */
const ANSWERS = {
  received: RECEIVED,
  duplicate: RECEIVED,
  empty_body: answerWith(400, { error: "empty_body" }),
  ambiguous_headers: answerWith(400, { error: "ambiguous_headers" }),
  unauthorized: answerWith(401, { error: "unauthorized" }),
  not_found: answerWith(404, { error: "not_found" }),
  method_not_allowed: answerWith(405, { error: "method_not_allowed" }, { Allow: "POST" }),
  too_large: answerWith(413, { error: "body_too_large" }),
  unsupported_type: answerWith(415, { error: "unsupported_media_type" }),
  unsupported_encoding: answerWith(
    415,
    { error: "unsupported_content_encoding" },
    { "Accept-Encoding": "identity" },
  ),
  body_already_read: answerWith(500, { error: "internal_error" }),
  failed: answerWith(500, { error: "internal_error" }),
  overloaded: answerWith(503, { error: "unavailable" }, RETRY_LATER),
  unavailable: answerWith(503, { error: "unavailable" }, RETRY_LATER),
  draining: answerWith(503, { error: "unavailable" }, { ...RETRY_LATER, Connection: "close" }),
} as const satisfies Record<string, Answer>;

/** How a request to the webhook endpoint ended; `aborted`: the sender disconnected before the answer. */
export type ReceiveOutcome = keyof typeof ANSWERS | "aborted";

export const RECEIVE_OUTCOMES: readonly ReceiveOutcome[] = [
  ...(Object.keys(ANSWERS) as (keyof typeof ANSWERS)[]),
  "aborted",
];

/** Sends the answer of an outcome, unless the sender is gone or something else has already answered. */
export function sendAnswer(res: ServerResponse, outcome: ReceiveOutcome): void {
  if (outcome === "aborted" || res.headersSent || res.destroyed) return;
  const { status, headers, body } = ANSWERS[outcome];
  res.writeHead(status, headers).end(body);
}

interface Refusal {
  readonly outcome: ReceiveOutcome;
  readonly source: string;
  readonly reason?: string;
  readonly error?: unknown;
}

/**
 * Logs refused requests, at most one per outcome and source in 10 s: a flood must cost us nothing. Only names of
 * headers appear, never values.
 */
export function makeRefusalLog({ clock, logger }: { clock: Clock; logger: Logger }) {
  const sample = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });

  return (req: IncomingMessage, { outcome, source, reason, error }: Refusal): void => {
    if (outcome === "received" || outcome === "duplicate" || outcome === "aborted") return;
    // An unknown source must not be a key: a scanner could invent any number.
    const knownSource = outcome === "not_found" ? undefined : source;
    const suppressed = sample(`${outcome} ${knownSource ?? ""}`);
    if (suppressed === undefined) return;
    const fields = {
      outcome,
      suppressed,
      ...(knownSource === undefined ? {} : { source: knownSource }),
      ...(reason === undefined ? {} : { reason }),
      ...(outcome === "unauthorized" ? { header_names: listTellingNames(req) } : {}),
      ...(error === undefined ? {} : { err: error }),
    };
    if (isOurFault(outcome)) logger.error(fields, "a webhook request could not be answered normally");
    else logger.warn(fields, "a webhook request was refused");
  };
}

function isOurFault(outcome: ReceiveOutcome): boolean {
  return (
    outcome === "body_already_read" ||
    outcome === "failed" ||
    outcome === "overloaded" ||
    outcome === "unavailable"
  );
}

function listTellingNames(req: IncomingMessage): string[] {
  return Object.keys(req.headers)
    .filter((name) => TELLING_NAME.test(name))
    .slice(0, NAMES_MAX);
}
