import type { ServerResponse } from "node:http";
import type { Clock } from "../process/clock.ts";
import { BODY_ALREADY_READ } from "../process/readBody.ts";
import { makeLogSampler } from "../process/telemetry/logSampler.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import type { SignatureRefusal } from "../signature/verifier.ts";

// All that the webhook endpoint can say, and what it logs of refused calls.

const RETRY_AFTER_SECONDS = 5;
const LOG_INTERVAL_MS = 10_000;

/** The answer to a call. */
export interface ReceiverAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

function answerWith(status: number, error: string, more = {}, message?: string): ReceiverAnswer {
  // A string, so that Node sends head and body in one system call; a Buffer would need two.
  const body = JSON.stringify({ error, message });
  const length = String(Buffer.byteLength(body));
  return { status, headers: { "Content-Type": "application/json", "Content-Length": length, ...more }, body };
}

/** Without a body, which no sender reads: a head alone saves a bare handler a tenth of its time. */
const RECEIVED: ReceiverAnswer = { status: 200, headers: { "Content-Length": "0" }, body: "" };
const RETRY_LATER = { "Retry-After": String(RETRY_AFTER_SECONDS) };

/**
 * Every answer of the endpoint, by outcome. All are constant: an answer never reveals more than its status about the
 * failed check. A duplicate is answered like the first one; otherwise its sender would keep trying.
 */
const ANSWERS = {
  received: RECEIVED,
  duplicate: RECEIVED,
  empty_body: answerWith(400, "empty_body"),
  ambiguous_headers: answerWith(400, "ambiguous_headers"),
  unauthorized: answerWith(401, "unauthorized"),
  not_found: answerWith(404, "not_found"),
  method_not_allowed: answerWith(405, "method_not_allowed", { Allow: "POST" }),
  too_large: answerWith(413, "body_too_large"),
  unsupported_type: answerWith(415, "unsupported_media_type"),
  unsupported_encoding: answerWith(415, "unsupported_content_encoding", { "Accept-Encoding": "identity" }),
  body_already_read: answerWith(500, "body_already_read", {}, BODY_ALREADY_READ),
  failed: answerWith(500, "internal_error"),
  overloaded: answerWith(503, "unavailable", RETRY_LATER),
  unavailable: answerWith(503, "unavailable", RETRY_LATER),
  draining: answerWith(503, "unavailable", { ...RETRY_LATER, Connection: "close" }),
} as const satisfies Record<string, ReceiverAnswer>;

/** The outcome of a request to the webhook endpoint; `aborted`: the sender disconnected before the answer. */
export type ReceiveOutcome = keyof typeof ANSWERS | "aborted";

/** The end of a call, with the fault of its signature or the error, if there was one. */
export interface Ending {
  readonly outcome: ReceiveOutcome;
  readonly reason?: SignatureRefusal | undefined;
  readonly error?: unknown;
}

/** Sends the answer of an outcome, unless the sender is gone or something else has already answered. */
export function sendAnswer(res: ServerResponse, outcome: ReceiveOutcome): void {
  if (outcome === "aborted" || res.headersSent || res.destroyed) return;
  const { status, headers, body } = ANSWERS[outcome];
  res.writeHead(status, headers).end(body);
}

export function writeAnswer(outcome: ReceiveOutcome): ReceiverAnswer {
  const answer: ReceiverAnswer = ANSWERS[outcome === "aborted" ? "failed" : outcome];
  return { ...answer, headers: { ...answer.headers } };
}

/** Logs refused requests, at most one per outcome and source in 10 s: a flood must cost us nothing. */
export function makeRefusalLog({ clock, logger }: { clock: Clock; logger: Logger }) {
  const sample = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });

  return ({ outcome, source, reason, error }: Ending & { source: string }): void => {
    if (outcome === "received" || outcome === "duplicate" || outcome === "aborted") return;
    // An unknown source must not be a key: a scanner could invent any number.
    const knownSource = outcome === "not_found" ? undefined : source;
    const suppressed = sample(`${outcome} ${knownSource ?? ""}`);
    if (suppressed === undefined) return;
    const fix = outcome === "body_already_read" ? BODY_ALREADY_READ : undefined;
    const fields = { outcome, suppressed, source: knownSource, reason, err: error, fix };
    if (ANSWERS[outcome].status >= 500 && outcome !== "draining")
      logger.error(fields, "a webhook request could not be answered normally");
    else logger.warn(fields, "a webhook request was refused");
  };
}
