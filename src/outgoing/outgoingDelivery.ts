import type { OutgoingFields } from "../domain/order/outgoing.ts";
import type { Pool } from "../database/database.ts";
import { claimDelivery, recordAttempt } from "./outgoingAttempt.sql.ts";
import type { AttemptOutcome, ClaimedDelivery, MissedChanges } from "./outgoingAttempt.sql.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { writeMessage } from "./outgoingMessage.ts";
import type { OutgoingMessage } from "./outgoingMessage.ts";

/** How an endpoint answered. */
export type SendResult =
  | { readonly kind: "answered"; readonly status: number; readonly retryAfterMs: number | null }
  /** No answer; `code` names the kind of failure, never what was sent. */
  | { readonly kind: "failed"; readonly code: string };

/** Any 2xx: the endpoint has the message. */
export function isAccepted(answer: SendResult): boolean {
  return answer.kind === "answered" && answer.status >= 200 && answer.status < 300;
}

/** Signs a message and posts it; never throws. */
export type SendMessage = (message: OutgoingMessage) => Promise<SendResult>;

/** One of the business's own endpoints, as far as sending matters. */
export interface OutgoingEndpoint {
  readonly send: SendMessage;
  readonly fields: OutgoingFields;
}

/**
 * Waits after the first failure, the second, and so on, as Standard Webhooks recommends; after the last a delivery is
 * dead. The total is a little over three days.
 */
const RETRY_SECONDS = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
/** Random extra share of the wait, so that deliveries that failed together do not retry together. */
const JITTER = 0.2;
/** Longer than any attempt takes. */
const LOST_AFTER_SECONDS = 60;
const HTTP_GONE = 410;

export type DeliverResult = "over" | { readonly againAfterMs: number };

/**
 * Makes the function that processes one delivery: claims it, sends it, and records the result. It returns when to
 * process it again, if at all. May be called at any time and concurrently: a delivery that is not due is skipped.
 *
 * 2xx counts as delivered. 410 means that the endpoint wants no further messages: the delivery is dead immediately.
 * Throws the database's error; the attempt then counts as lost and is repeated, so an endpoint may get a message twice.
 */
export function makeDeliver(deps: {
  pool: Pool;
  endpoints: ReadonlyMap<string, OutgoingEndpoint>;
  logger: Logger;
  random: () => number;
  /** For tests, which do not wait for the product's spans. */
  retrySeconds?: readonly number[];
}): (deliveryId: string) => Promise<DeliverResult> {
  const { pool, endpoints, logger, random, retrySeconds = RETRY_SECONDS } = deps;
  return async (deliveryId) => {
    const claim = await claimDelivery(pool, { deliveryId, lostAfterSeconds: LOST_AFTER_SECONDS });
    if (claim.kind === "over") return "over";
    if (claim.kind === "wait") return { againAfterMs: claim.afterMs };
    if (claim.kind === "removed") {
      await recordAttempt(pool, { deliveryId, outcome: "change_removed", result: "dead" });
      return "over";
    }
    const endpoint = endpoints.get(claim.endpointId);
    // No longer configured; it waits in the table until it is again.
    if (endpoint === undefined) return "over";
    const answer = await endpoint.send(writeMessage(claim, endpoint.fields));
    const attempt: AttemptOutcome = {
      deliveryId,
      ...judgeAnswer(answer, { waitSeconds: retrySeconds[claim.attempt - 1], chance: random() }),
    };
    await recordAttempt(pool, attempt);
    logAttempt(logger, claim, attempt);
    return typeof attempt.result === "string" ? "over" : { againAfterMs: attempt.result.retryAfterMs };
  };
}

/**
 * Interprets an answer. `waitSeconds` is the wait before the next attempt, undefined after the last; `chance`, from 0
 * to 1, extends it. @internal
 */
export function judgeAnswer(
  answer: SendResult,
  { waitSeconds, chance }: { waitSeconds: number | undefined; chance: number },
): Pick<AttemptOutcome, "outcome" | "result"> {
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
  claim: ClaimedDelivery | MissedChanges,
  { outcome, result, deliveryId }: AttemptOutcome,
): void {
  const { endpointId: endpoint, attempt } = claim;
  const reference = claim.kind === "missed" ? null : claim.change.reference;
  const fields = { endpoint, delivery_id: deliveryId, reference, attempt, outcome };
  if (result === "dead")
    logger.error(fields, "an outgoing webhook was given up; it can be sent again by hand");
  else if (result === "delivered") logger.debug(fields, "an outgoing webhook was delivered");
  else logger.info(fields, "an outgoing webhook failed and will be tried again");
}
