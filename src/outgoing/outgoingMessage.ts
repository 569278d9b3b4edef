import { createHash } from "node:crypto";
import { formatInstant } from "../domain/order/instant.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { OutgoingFields } from "../domain/order/outgoing.ts";
import { writeChange } from "../changes/changeJson.ts";
import { writeFeedCursor } from "../changes/feedCursor.ts";
import { redactOrder } from "../wire/redactOrder.ts";
import type { ChangeDelivery, MissedChanges } from "./outgoingDelivery.sql.ts";

export interface OutgoingMessage {
  /**
   * The same in every attempt and replay, so that the receiver can detect repetitions. Derived from the message's
   * content, not from its position in the feed: it stays the same when the database moves.
   */
  readonly id: string;
  readonly body: Buffer;
}

/** The message about a change, or about changes that were missed. */
export function writeMessage(due: ChangeDelivery | MissedChanges, fields: OutgoingFields): OutgoingMessage {
  return due.kind === "missed" ? writeMissed(due) : writeChanged(due, fields);
}

const SHOWN_ORDER: Readonly<Record<OutgoingFields, (order: string) => string | null>> = {
  all: (order) => order,
  redacted: redactOrder,
  thin: () => null,
};

/** In the format of Standard Webhooks: `timestamp` is our time of the change, `data` as in the feed. */
function writeChanged({ epoch, type, change }: ChangeDelivery, fields: OutgoingFields): OutgoingMessage {
  const text = writeChange(change, epoch, SHOWN_ORDER[fields]);
  const { changedAt, sourceId, reference, revision, version, verdict } = change;
  const head = JSON.stringify({ type, timestamp: formatInstant(changedAt), source: sourceId });
  return {
    id: makeId(sourceId, reference, revision, version, verdict),
    body: Buffer.from(`${head.slice(0, -1)},"data":${text}}`),
  };
}

function writeMissed({ epoch, sourceId, after, through, foundAt }: MissedChanges): OutgoingMessage {
  const message = {
    type: "changes.missed",
    timestamp: formatInstant(foundAt),
    source: sourceId,
    data: {
      after: writeFeedCursor({ epoch, position: after, digest: "" }),
      through: writeFeedCursor({ epoch, position: through, digest: "" }),
    },
  };
  return { id: makeId(sourceId, "missed", after, through), body: Buffer.from(JSON.stringify(message)) };
}

function makeId(...parts: readonly (string | number | bigint)[]): string {
  const digest = createHash("sha256")
    .update(JSON.stringify(parts.map(String)))
    .digest("hex");
  return `msg_${digest.slice(0, 32)}`;
}

/** A message about nothing, to try an endpoint with. */
export function writeTestMessage({ sourceId, now }: { sourceId: string; now: Instant }): OutgoingMessage {
  const message = { type: "test", timestamp: formatInstant(now), source: sourceId, data: {} };
  return { id: makeId(sourceId, "test", now), body: Buffer.from(JSON.stringify(message)) };
}

/** Escapes of JSON, percent encoding, and character references of HTML. */
const ESCAPED = /\\u([0-9a-f]{4})|\\(.)|((?:%[0-9a-f]{2})+)|&#(x[0-9a-f]{1,5}|\d{1,6});/gis;
const CONTROLS: Readonly<Record<string, string>> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
/** JSON within JSON is escaped twice, and so on; a percent sign can be escaped without end. */
const ESCAPED_TIMES_MAX = 8;
const CODE_POINT_MAX = 0x10_ff_ff;
const SHOWN_LENGTH_MAX = 200;
/** Shorter values appear in texts by chance. */
const HIDDEN_LENGTH_MIN = 3;
const HIDDEN = "[…]";
const SECRETS = /\b(?:whsec_|whsk_|bearer\s+|basic\s+|v1a?,)[\w+/=.~-]+/gi;
const UNPRINTABLE = /[\s\p{C}]+/gu;

/**
 * The beginning of an endpoint's answer to the message `sent`, as people may see it; null if it is empty. Control
 * characters become spaces. Secrets, and what the message said about the order beyond its redacted form, are hidden.
 */
export function showAnswer(beginning: Buffer, sent: Buffer): string | null {
  // Escapes hide what the message said from the comparison, but not from people.
  const plain = withoutEscapes(beginning.toString("utf8"));
  const text = plain.replace(UNPRINTABLE, " ").trim().replaceAll(SECRETS, HIDDEN);
  if (text === "") return null;
  return hide(text, listPersonal(sent)).slice(0, SHOWN_LENGTH_MAX);
}

/** The text as it is meant, without escapes of JSON, of addresses and of HTML, and without the escapes in those. */
function withoutEscapes(text: string): string {
  let plain = text;
  for (let times = 0; times < ESCAPED_TIMES_MAX; times += 1) plain = unescaped(plain);
  return plain;
}

function unescaped(text: string): string {
  return text.replaceAll(
    ESCAPED,
    (escape: string, unit?: string, sign?: string, percents?: string, point?: string) => {
      if (unit !== undefined) return String.fromCharCode(Number.parseInt(unit, 16));
      if (sign !== undefined) return CONTROLS[sign] ?? sign;
      if (percents !== undefined) return Buffer.from(percents.replaceAll("%", ""), "hex").toString("utf8");
      const code = Number(point?.replace(/^x/i, "0x"));
      return code <= CODE_POINT_MAX ? String.fromCodePoint(code) : escape;
    },
  );
}

function hide(text: string, values: readonly string[]): string {
  // The longest first, because one may contain another.
  const patterns = values
    .toSorted((left, right) => right.length - left.length)
    .map((value) => value.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return patterns.length === 0 ? text : text.replaceAll(new RegExp(patterns.join("|"), "gi"), HIDDEN);
}

function listPersonal(sent: Buffer): string[] {
  const { data } = JSON.parse(sent.toString()) as { data: { before?: unknown; after?: unknown } };
  const orders = [data.before, data.after].filter((order) => order !== null && order !== undefined);
  const shown = new Set(
    orders.flatMap((order) => listValues(JSON.parse(redactOrder(JSON.stringify(order))))),
  );
  const values = orders.flatMap(listValues);
  return [...new Set(values)].filter((value) => value.length >= HIDDEN_LENGTH_MIN && !shown.has(value));
}

function listValues(part: unknown): string[] {
  if (typeof part === "object" && part !== null) return Object.values(part).flatMap(listValues);
  return typeof part === "string" || typeof part === "number" ? [String(part).replace(UNPRINTABLE, " ")] : [];
}
