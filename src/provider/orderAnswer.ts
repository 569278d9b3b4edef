import type { z } from "zod";
import { UnreadableSnapshotError } from "../domain/errors.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { Snapshot } from "../domain/order/order.ts";
import { describeMistakes, orderResponseSchema, readOrderResponse } from "../wire/order.ts";
import type { WireOrder } from "../wire/order.ts";
import { ProviderUnavailableError } from "./errors.ts";
import type { RawAnswer } from "./errors.ts";
import type { ProviderAnswer } from "./http/request.ts";

export interface OrderAnswer {
  /** Parsed as leniently as the mirror reads, with the exact text. */
  readonly snapshot: Snapshot;
  /** The provider's time at which the request started, a lower bound. */
  readonly requestedAt: Instant;
  readonly requestId: string | null;
  /** Status, headers and text, unchanged. */
  readonly answer: RawAnswer;
  /** Value of Service-Subscription-State: `past_due`, or null in all other states (spec, "Limits"). */
  readonly subscriptionState: string | null;
  /** Parses the order as strictly as the spec describes it. Throws ProviderUnavailableError if it deviates. */
  readonly readOrder: () => WireOrder;
}

/** Throws ProviderUnavailableError if the answer is not an order. `endpoint` is for example `POST /v1/orders`. */
export function readOrderAnswer(endpoint: string, answer: ProviderAnswer): OrderAnswer {
  return {
    snapshot: readSnapshotOf(endpoint, answer),
    requestedAt: answer.requestedAt,
    requestId: answer.requestId,
    answer,
    subscriptionState: readSubscriptionState(answer),
    readOrder: () => parseAnswer(orderResponseSchema, endpoint, answer),
  };
}

/** Parses the answer's value with `schema`. Throws ProviderUnavailableError that names paths, never values. */
export function parseAnswer<Schema extends z.ZodType>(
  schema: Schema,
  endpoint: string,
  answer: ProviderAnswer,
): z.infer<Schema> {
  const result = schema.safeParse(answer.value);
  if (result.success) return result.data;
  throw makeUnreadable(endpoint, answer, describeMistakes(result.error));
}

export function makeUnreadable(
  endpoint: string,
  answer: ProviderAnswer,
  mistake: string,
): ProviderUnavailableError {
  const facts = { status: answer.status, code: null, requestId: answer.requestId };
  const text = `${endpoint} was answered unreadably: ${mistake}`;
  return new ProviderUnavailableError(text, facts, { reason: "unreadable" });
}

export function readSubscriptionState({ headers }: ProviderAnswer): string | null {
  return headers.get("service-subscription-state");
}

function readSnapshotOf(endpoint: string, answer: ProviderAnswer): Snapshot {
  // readOrderResponse expects the text of an object.
  if (typeof answer.value !== "object" || answer.value === null || Array.isArray(answer.value)) {
    throw makeUnreadable(endpoint, answer, "not an object");
  }
  try {
    return readOrderResponse(answer.text);
  } catch (error) {
    if (error instanceof UnreadableSnapshotError) throw makeUnreadable(endpoint, answer, error.message);
    throw error;
  }
}
