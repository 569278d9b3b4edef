import { z } from "zod";
import { formatInstant } from "../domain/order/instant.ts";
import {
  CHANGE_VERDICTS,
  type Change,
  type Completeness,
  type FeedCursor,
  type WrittenCursor,
} from "./changeFeed.sql.ts";
import { orderSchema } from "../wire/order.ts";

/** A change as written by writeChange. */
export const changeSchema = z.object({
  position: z.string().describe("Its position in the feed: for `after`."),
  reference: z.string(),
  revision: z.number().int().describe("1 for the first change of an order, then one more for each."),
  status: z.string(),
  previousStatus: z.string().nullable().describe("Null for the first change of an order."),
  verdict: z
    .enum(CHANGE_VERDICTS)
    .describe(
      "applied: the order changed. corrected: the order went back to an earlier updatedAt, because a read refuted the later one or that was dated ahead. gone: the provider no longer has the order.",
    ),
  cause: z.object({
    via: z.string().describe("webhook, poll, backfill, refetch, verify or write."),
    eventId: z.string().nullish(),
    eventType: z.string().nullish(),
  }),
  updatedAt: z.string().describe("The provider's time of the change."),
  changedAt: z.string().describe("The mirror's time of the change."),
  changedFields: z
    .array(z.string())
    .nullable()
    .describe("Names of the fields that differ; null for a gone order, and if a state is no longer kept."),
  before: orderSchema.nullable().describe("Null for a new order, and for a state that is no longer kept."),
  after: orderSchema
    .nullable()
    .describe(
      "Null for a gone order, and for a former state that is no longer kept (HISTORY_KEPT_FOR): a later change has a newer one.",
    ),
});

/** A Completeness as written by showCompleteness. */
export const completenessSchema = z.object({
  through: z
    .string()
    .describe(
      "Every change with an earlier updatedAt is at this position of the feed or before it. An earlier time than in the last record means that a proof was withdrawn.",
    ),
  exceptions: z
    .number()
    .int()
    .describe("Orders excluded from this: they could not be read. Counted up to 1,000."),
});

export function showCompleteness({ through, exceptions }: Completeness): z.infer<typeof completenessSchema> {
  return { through: formatInstant(through), exceptions };
}

/**
 * A change as JSON text. `before` and `after` are the provider's unchanged orders, so the text is concatenated instead
 * of made by `JSON.stringify`; it may contain line breaks. `epoch` belongs to the change's position. `show`
 * replaces the text of an order; null omits it.
 */
export function writeChange(
  change: Change,
  epoch: string,
  show: (order: string) => string | null = (order) => order,
): string {
  const { via, eventId, eventType } = change;
  const head = {
    position: writeFeedCursor({ ...change, epoch }),
    reference: change.reference,
    revision: change.revision,
    status: change.status,
    previousStatus: change.previousStatus,
    verdict: change.verdict,
    cause: via === "webhook" ? { via, eventId, eventType } : { via },
    updatedAt: formatInstant(change.version),
    changedAt: formatInstant(change.changedAt),
    changedFields: listChanged(change),
  };
  const members = JSON.stringify(head).slice(0, -1);
  const [before, after] = [change.before, change.after].map((order) =>
    order === null ? "null" : (show(order) ?? "null"),
  );
  return `${members},"before":${before},"after":${after}}`;
}

/** All fields for a new order; null if `before` or `after` is no longer kept. */
function listChanged({ before, after, revision }: Change): string[] | null {
  if (after === null || (before === null && revision > 1)) return null;
  return changedFields(before === null ? {} : JSON.parse(before), JSON.parse(after));
}

const CURSOR = /^([0-9a-f]{12})\.(\d{1,19})(?:\.([0-9a-f]{8}))?$/;
/** Postgres' greatest bigint. */
const POSITION_MAX = 2n ** 63n - 1n;

/** A position as text for an address or an SSE id. Opaque: clients only return it. */
export function writeFeedCursor({ epoch, position, digest }: WrittenCursor): string {
  return digest === "" ? `${epoch}.${position}` : `${epoch}.${position}.${digest}`;
}

/** Parses a cursor of writeFeedCursor; undefined for any other text. */
export function readFeedCursor(text: string): FeedCursor | undefined {
  const [, epoch, digits, digest = ""] = CURSOR.exec(text) ?? [];
  if (epoch === undefined || digits === undefined) return undefined;
  const position = BigInt(digits);
  return position > POSITION_MAX ? undefined : { epoch, position, digest };
}

/** More changed fields than any order has; the rest is omitted. @internal */
export const CHANGED_FIELDS_MAX = 1_000;

/**
 * The differences between two JSON values, as JSON Pointers (RFC 6901), in the order of `after`.
 *
 * An added or removed field is listed itself, without its content; so is a list whose length changed. At most
 * CHANGED_FIELDS_MAX. The values must come from `JSON.parse` and be no deeper than JSON_DEPTH_MAX. @internal
 */
export function changedFields(before: unknown, after: unknown): string[] {
  const pointers: string[] = [];
  collect({ before, after, pointer: "" }, pointers);
  return pointers;
}

function collect(
  { before, after, pointer }: { before: unknown; after: unknown; pointer: string },
  pointers: string[],
): void {
  if (before === after || pointers.length >= CHANGED_FIELDS_MAX) return;
  if (!isNested(before) || !isNested(after) || !hasSameShape(before, after)) {
    pointers.push(pointer);
    return;
  }
  const keys = new Set([...Object.keys(after), ...Object.keys(before)]);
  for (const key of keys) {
    const inner = `${pointer}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    collect({ before: ownValue(before, key), after: ownValue(after, key), pointer: inner }, pointers);
  }
}

type Nested = Readonly<Record<string, unknown>>;

function isNested(value: unknown): value is Nested {
  return typeof value === "object" && value !== null;
}

/** Two objects, or two lists of the same length, can be compared element by element. */
function hasSameShape(left: Nested, right: Nested): boolean {
  const [leftIsList, rightIsList] = [Array.isArray(left), Array.isArray(right)];
  return leftIsList === rightIsList && (!leftIsList || left["length"] === right["length"]);
}

/** Undefined, which is not a JSON value, if the field is absent; never an inherited property. */
function ownValue(nested: Nested, key: string): unknown {
  return Object.hasOwn(nested, key) ? nested[key] : undefined;
}
