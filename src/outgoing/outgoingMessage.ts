import { createHash } from "node:crypto";
import { formatInstant, type Instant } from "../domain/order/instant.ts";
import type { OutgoingFields, OutgoingType } from "../domain/order/outgoing.ts";
import type { Change } from "../changes/changeFeed.sql.ts";
import { writeChange } from "../changes/changeJson.ts";
import { redactOrder } from "../wire/redactOrder.ts";

export interface OutgoingMessage {
  /**
   * An id that is the same in every attempt and replay, so that the receiver can detect repetitions. Derived from the
   * message's content, not from its position in the feed: it stays the same when the database moves.
   */
  readonly id: string;
  readonly body: Buffer;
}

/** In the format of Standard Webhooks: `timestamp` is our time of the change, `data` as in the feed. */
export function writeMessage(
  change: Change & { readonly epoch: string; readonly type: OutgoingType },
  fields: OutgoingFields,
): OutgoingMessage {
  const { epoch, type } = change;
  const text = writeChange(change, epoch, fields === "redacted" ? redactOrder : undefined);
  const { changedAt, sourceId, reference, revision, version, verdict } = change;
  const head = JSON.stringify({ type, timestamp: formatInstant(changedAt), source: sourceId });
  return {
    id: makeId(sourceId, reference, revision, version, verdict),
    body: Buffer.from(`${head.slice(0, -1)},"data":${text}}`),
  };
}

/** A message about no order, by which a person tries an endpoint. */
export function writeTest(test: {
  readonly deliveryId: string;
  readonly createdAt: Instant;
  readonly sourceId: string;
}): OutgoingMessage {
  const { deliveryId, createdAt, sourceId } = test;
  const body = { type: "test", timestamp: formatInstant(createdAt), source: sourceId, data: {} };
  return { id: makeId("test", deliveryId), body: Buffer.from(JSON.stringify(body)) };
}

function makeId(...parts: readonly (string | number | bigint)[]): string {
  const digest = createHash("sha256")
    .update(JSON.stringify(parts.map(String)))
    .digest("hex");
  return `msg_${digest.slice(0, 32)}`;
}

const SHOWN_LENGTH_MAX = 200;
/** Shorter values appear in texts by chance. */
const HIDDEN_LENGTH_MIN = 3;
const SECRETS = /\b(?:whsec_|bearer\s+|basic\s+|v1,)[\w+/=.~-]+/gi;
const UNPRINTABLE = /[\s\p{C}]+/gu;
/** Escapes of JSON, of addresses and of HTML: people read them, and a comparison does not. */
const ESCAPE = /\\|%[0-9a-f]{2}|&#?\w+;/i;
const NOT_SHOWN = "(not shown, as it may repeat personal data)";

/**
 * The beginning of an endpoint's answer to a change of `orders`, as people may see it; null if it is empty. Control
 * characters become spaces, and secrets are hidden. An answer that repeats personal data of the orders, or might, is
 * not shown at all, whether the message had them or not: the endpoint may know the order from elsewhere.
 */
export function showAnswer(beginning: Buffer, orders: readonly (string | null)[]): string | null {
  const text = beginning.toString("utf8").replace(UNPRINTABLE, " ").trim().replaceAll(SECRETS, "[…]");
  if (text === "") return null;
  const plain = text.toLowerCase();
  const repeats = listPersonal(orders).some((value) => plain.includes(value.toLowerCase()));
  return repeats || ESCAPE.test(text) ? NOT_SHOWN : text.slice(0, SHOWN_LENGTH_MAX);
}

function listPersonal(orders: readonly (string | null)[]): string[] {
  const known = orders.filter((order) => order !== null);
  const shown = new Set(known.flatMap((order) => listValues(JSON.parse(redactOrder(order)))));
  const values = known.flatMap((order) => listValues(JSON.parse(order)));
  return [...new Set(values)].filter((value) => value.length >= HIDDEN_LENGTH_MIN && !shown.has(value));
}

function listValues(part: unknown): string[] {
  if (typeof part === "object" && part !== null) return Object.values(part).flatMap(listValues);
  return typeof part === "string" || typeof part === "number" ? [String(part).replace(UNPRINTABLE, " ")] : [];
}
