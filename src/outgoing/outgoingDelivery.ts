import type { Pool } from "../database/database.ts";
import { showAnswer } from "./outgoingAnswer.ts";
import { recordAttempt } from "./outgoingAttempt.sql.ts";
import type { AttemptEnd, Claim } from "./outgoingAttempt.sql.ts";
import type { OutgoingWebhook } from "../runtime/config/outgoingFile.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { writeMessage } from "./outgoingMessage.ts";
import type { OutgoingMessage } from "./outgoingMessage.ts";

export type SendResult = {
  /** From the request to the head of the answer, or to the failure. */
  readonly durationMs: number;
} & (
  | {
      readonly kind: "answered";
      readonly status: number;
      readonly retryAfterMs: number | null;
      readonly beginning: Buffer;
    }
  /** No answer; `code` names the kind of failure, never what was sent. */
  | { readonly kind: "failed"; readonly code: string }
);

type Ending =
  | Omit<Extract<SendResult, { kind: "answered" }>, "durationMs" | "beginning">
  | Omit<Extract<SendResult, { kind: "failed" }>, "durationMs">;

/** Any 2xx: the endpoint has the message. */
export function isAccepted(answer: Ending): boolean {
  return answer.kind === "answered" && answer.status >= 200 && answer.status < 300;
}

/** Signs a message and posts it; never throws. */
export type SendMessage = (message: OutgoingMessage) => Promise<SendResult>;

/** One of the business's own endpoints, as far as sending matters. */
export interface OutgoingEndpoint extends Pick<
  OutgoingWebhook,
  "endpointId" | "fields" | "ordered" | "rate" | "paused"
> {
  readonly send: SendMessage;
}

/** The waits after each failure, as Standard Webhooks recommends: a little over three days until it is dead. */
const RETRY_SECONDS = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
/** Random extra share of the wait, so that deliveries that failed together do not retry together. */
const JITTER = 0.2;
/** Longer than any attempt takes. */
export const LOST_AFTER_SECONDS = 60;
const HTTP_GONE = 410;

/**
 * Makes the function that sends a claimed delivery and records the end of the attempt.
 *
 * 2xx counts as delivered. 410 means that the endpoint wants no further messages: the delivery is dead immediately.
 * Rejects with the database's error; the attempt then counts as lost and is repeated, so an endpoint may get a message
 * twice.
 */
export function makeDeliver(deps: {
  pool: Pool;
  endpoint: Pick<OutgoingEndpoint, "send" | "fields">;
  logger: Logger;
  random: () => number;
  /** For tests, which do not wait for the product's spans. */
  retrySeconds?: readonly number[];
}): (claim: Claim) => Promise<void> {
  const { pool, endpoint, logger, random, retrySeconds = RETRY_SECONDS } = deps;
  return async (claim) => {
    const { attemptId } = claim;
    if (claim.kind === "removed") {
      const end = { outcome: "change_removed", durationMs: 0, answer: null, result: "dead" } as const;
      return recordAttempt(pool, { attemptId, ...end });
    }
    const { id, body } = writeMessage(claim, endpoint.fields);
    const answer = await endpoint.send({ id, body });
    const end: AttemptEnd = {
      attemptId,
      durationMs: answer.durationMs,
      answer: answer.kind === "answered" ? showAnswer(answer.beginning, body) : null,
      ...judgeAnswer(answer, { waitSeconds: retrySeconds[claim.attempt - 1], chance: random() }),
    };
    await recordAttempt(pool, end);
    logAttempt(logger, claim, end);
  };
}

/**
 * Interprets an answer. `waitSeconds` is the wait before the next attempt, undefined after the last; `chance`, from 0
 * to 1, extends it. @internal
 */
export function judgeAnswer(
  answer: Ending,
  { waitSeconds, chance }: { waitSeconds: number | undefined; chance: number },
): Pick<AttemptEnd, "outcome" | "result"> {
  const outcome = answer.kind === "answered" ? `status ${answer.status}` : answer.code;
  if (isAccepted(answer)) return { outcome, result: "delivered" };
  const gone = answer.kind === "answered" && answer.status === HTTP_GONE;
  if (gone || waitSeconds === undefined) return { outcome, result: "dead" };
  const asked = answer.kind === "answered" ? (answer.retryAfterMs ?? 0) : 0;
  const retryAfterMs = Math.round(Math.max(waitSeconds * 1_000, asked) * (1 + JITTER * chance));
  return { outcome, result: { retryAfterMs } };
}

function logAttempt(
  logger: Logger,
  claim: Exclude<Claim, { kind: "removed" }>,
  { outcome, result }: AttemptEnd,
): void {
  const { endpointId: endpoint, deliveryId, attempt } = claim;
  const reference = claim.kind === "missed" ? null : claim.change.reference;
  const fields = { endpoint, delivery_id: deliveryId, reference, attempt, outcome };
  if (result === "dead")
    logger.error(fields, "an outgoing webhook was given up; it can be sent again by hand");
  else if (result === "delivered") logger.debug(fields, "an outgoing webhook was delivered");
  else logger.info(fields, "an outgoing webhook failed and will be tried again");
}
