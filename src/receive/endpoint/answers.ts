import type { OutgoingHttpHeaders, ServerResponse } from "node:http";

const RETRY_AFTER_SECONDS = 5;

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
