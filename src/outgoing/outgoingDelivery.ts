import type { Pool } from "../database/database.ts";
import { showAnswer, writeMessage } from "./outgoingMessage.ts";
import { readDue, recordAttempt } from "./outgoingDelivery.sql.ts";
import type { AttemptEnd } from "./outgoingDelivery.sql.ts";
import type { OutgoingWebhook } from "../runtime/config/outgoingFile.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import type { SendMessage, SendResult } from "./outgoingSend.ts";

type Ending =
  | Pick<Extract<SendResult, { kind: "answered" }>, "kind" | "status">
  | Pick<Extract<SendResult, { kind: "failed" }>, "kind" | "code">;

/** One of the business's own endpoints, as far as sending matters. */
export interface OutgoingEndpoint extends Pick<
  OutgoingWebhook,
  "endpointId" | "fields" | "ordered" | "rate" | "paused"
> {
  readonly send: SendMessage;
}

/** The delays after each failure, as Standard Webhooks recommends: a little over three days until it is dead. */
export const RETRY_SECONDS = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
/** Random extra share of the delay, so that what failed together is not retried together. */
const JITTER = 0.2;
const HTTP_GONE = 410;

/** The delay after attempt `attempts`, which failed: at least what the endpoint asked for. `chance` is 0 to 1. */
export function retryDelayMs(
  attempts: number,
  {
    askedMs,
    chance,
    retrySeconds = RETRY_SECONDS,
  }: { askedMs: number; chance: number; retrySeconds?: readonly number[] },
): number {
  return Math.round(Math.max((retrySeconds[attempts - 1] ?? 0) * 1_000, askedMs) * (1 + JITTER * chance));
}

/** How a job went on, for the queue. */
export type Delivered =
  | { readonly kind: "obsolete" }
  /** Look again after this delay; nothing was sent. */
  | { readonly kind: "waits"; readonly delayMs: number }
  | {
      readonly kind: "attempted";
      readonly result: AttemptEnd["result"];
      readonly outcome: string;
      /** The attempt in words, with what the endpoint answered. */
      readonly story: string;
      /** What the endpoint asked for; 0 if nothing. */
      readonly askedMs: number;
      readonly failuresInRow: number;
    };

/** An earlier change of the order is under way, or waits itself. */
const EARLIER_UNDER_WAY_MS = 200;
const EARLIER_FAILED_MS = 5_000;

/**
 * Makes the function that sends a delivery, if it is still to be sent, and records the end of the attempt.
 *
 * 2xx counts as delivered. 410 means that the endpoint wants no further messages: the delivery is dead immediately.
 * Rejects with the database's error; the attempt is then repeated, so an endpoint may get a message twice.
 */
export function makeDeliver(deps: {
  pool: Pool;
  endpoint: Pick<OutgoingEndpoint, "endpointId" | "send" | "fields" | "ordered">;
  logger: Logger;
}): (deliveryId: string, attempt: { number: number; isLast: boolean }) => Promise<Delivered> {
  const { pool, endpoint, logger } = deps;
  return async (deliveryId, { number, isLast }) => {
    const due = await readDue(pool, deliveryId, endpoint);
    if (due.kind === "obsolete") return { kind: "obsolete" };
    if (due.kind === "waits")
      return { kind: "waits", delayMs: due.retried ? EARLIER_FAILED_MS : EARLIER_UNDER_WAY_MS };
    if (due.kind === "removed") {
      const end = { outcome: "change_removed", durationMs: 0, answer: null, result: "dead" } as const;
      const { failuresInRow } = await recordAttempt(pool, { deliveryId, ...end });
      return { kind: "attempted", ...end, story: end.outcome, askedMs: 0, failuresInRow };
    }
    const { id, body } = writeMessage(due, endpoint.fields);
    const sent = await endpoint.send({ id, body });
    const { outcome, result } = judgeAnswer(sent, isLast);
    const durationMs = Math.round(sent.durationMs);
    const shown = sent.kind === "answered" ? showAnswer(sent.beginning, body) : null;
    const end = { deliveryId, durationMs, outcome, result, answer: shown };
    const { failuresInRow, answer } = await recordAttempt(pool, end);
    const { reference } = due.change;
    const fields = { endpoint: endpoint.endpointId, delivery_id: deliveryId, reference };
    const [level, sentence] = SENTENCES[result];
    logger[level]({ ...fields, attempt: number, outcome }, sentence);
    const story = `${outcome} after ${durationMs} ms: ${answer ?? "no answer to show"}`;
    const askedMs = sent.kind === "answered" ? (sent.retryAfterMs ?? 0) : 0;
    return { kind: "attempted", result, outcome, story, askedMs, failuresInRow };
  };
}

const SENTENCES = {
  dead: ["error", "an outgoing webhook was given up; it can be sent again by hand"],
  delivered: ["debug", "an outgoing webhook was delivered"],
  pending: ["info", "an outgoing webhook failed and will be tried again"],
} as const;

/** Interprets an answer to the last attempt, or to one before. Any 2xx: the endpoint has the message. @internal */
export function judgeAnswer(answer: Ending, isLast: boolean): Pick<AttemptEnd, "outcome" | "result"> {
  const outcome = answer.kind === "answered" ? `status ${answer.status}` : answer.code;
  const accepted = answer.kind === "answered" && answer.status >= 200 && answer.status < 300;
  if (accepted) return { outcome, result: "delivered" };
  const gone = answer.kind === "answered" && answer.status === HTTP_GONE;
  return { outcome, result: gone || isLast ? "dead" : "pending" };
}
