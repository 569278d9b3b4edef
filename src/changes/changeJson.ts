import { z } from "zod";
import { changedFields } from "./changedFields.ts";
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
      "applied: the order changed. corrected: a read refuted a claim, so the order went back. gone: the provider no longer has the order.",
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
