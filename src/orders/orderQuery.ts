import { z } from "zod";
import { tryParseInstant } from "../domain/order/instant.ts";
import type { BranchName } from "./branches.sql.ts";
import type { OrderFilter } from "./orderFilter.sql.ts";
import { ORDER_SORTS } from "./orderReads.sql.ts";
import type { OrdersQuery } from "./orderReads.sql.ts";
import { ASSUMED_CODES } from "../wire/api.ts";
import { readCursor } from "./cursor.ts";
import { refuseParameter } from "../http/errors.ts";
import { parseParameters, wholeNumber } from "../http/parameters.ts";

/** Spec, "Limits": list page size and offset. */
const LIMIT_MAX = 200;
const LIMIT_DEFAULT = 50;
const OFFSET_MAX = 1_000_000_000;
const TEXT_LENGTH_MAX = 255;

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const TIME_RULE = "an ISO 8601 date-time with offset (write + as %2B in an address)";
const TEXT_RULE = `a text of 1 to ${TEXT_LENGTH_MAX} characters`;

export const time = z
  .string({ error: TIME_RULE })
  .meta({ format: "date-time" })
  .transform((text, context) => {
    const instant = tryParseInstant(text);
    if (instant !== undefined) return instant;
    context.issues.push({ code: "custom", message: TIME_RULE, input: text });
    return z.NEVER;
  });
// The database's text cannot hold NUL, so nothing can match it; refused before it reaches the database.
const text = z
  .string({ error: TEXT_RULE })
  .min(1, TEXT_RULE)
  .max(TEXT_LENGTH_MAX, TEXT_RULE)
  .refine((value) => !value.includes("\0"), TEXT_RULE);

/** The last four are ours; the others are the spec's ("list orders"). */
export const filterSchema = z.object({
  updatedSince: time.optional().describe("Inclusive start of the update period; requires updatedUntil."),
  updatedUntil: time.optional().describe("Exclusive end of the update period; requires updatedSince."),
  pickupFrom: time.optional().describe("Inclusive start of the period of planned pickups."),
  pickupUntil: time.optional().describe("Exclusive end of the period of planned pickups."),
  deliveryFrom: time.optional().describe("Inclusive start of the period of planned deliveries."),
  deliveryUntil: time.optional().describe("Exclusive end of the period of planned deliveries."),
  status: text.optional().describe("Only orders with this status."),
  branch: text.optional().describe("A branch's reference or id; closed branches too."),
  fleet: text.optional().describe("Only orders of the fleet with this name."),
  scheduleMode: text.optional().describe("Only orders with this schedule mode, such as asap."),
  externalOrderIdPrefix: text.optional().describe("Only orders whose externalOrderId begins with this text."),
  firstSeenSince: time.optional().describe("Only orders that the mirror first saw at or after this time."),
});

export const pageSchema = filterSchema.extend({
  sort: z
    .enum(ORDER_SORTS, { error: `one of ${ORDER_SORTS.join(", ")}` })
    .optional()
    .describe("Ascending. Default updatedAt; with firstSeenSince firstSeenAt."),
  limit: wholeNumber({ min: 1, max: LIMIT_MAX })
    .default(LIMIT_DEFAULT)
    .describe(`Orders per page. Default ${LIMIT_DEFAULT}.`),
  offset: wholeNumber({ min: 0, max: OFFSET_MAX })
    .optional()
    .describe("How many orders to skip. Default 0; cannot be combined with cursor."),
  cursor: z
    .string({ error: "given once" })
    .optional()
    .describe('Continues after a page: from the address in Link: rel="next".'),
  revisions: z
    .enum(["0", "1"], { error: "0 or 1" })
    .default("0")
    .describe("1: adds the list `revisions`, with the revision of each order as in the change feed."),
});

/** A filter as given by the client; its branch is not resolved yet. */
export type AskedFilter = Omit<OrderFilter, "sourceId" | "branchId"> & { readonly branch?: BranchName };

export type AskedPage = AskedFilter &
  Pick<OrdersQuery, "sort" | "after" | "limit" | "offset"> & { readonly revisions: boolean };

/** The parameters that select orders. Throws RefusedRequestError, 422. */
export function parseOrderFilter(parameters: URLSearchParams): AskedFilter {
  return readFilter(parseParameters(filterSchema, parameters));
}

/**
 * The parameters of GET /v1/orders (spec, "list orders") and our own: `cursor`, those of the filter, and
 * `sort=firstSeenAt`, which is the default with `firstSeenSince`. Throws RefusedRequestError, 422.
 */
export function parseOrderQuery(parameters: URLSearchParams): AskedPage {
  const {
    cursor,
    offset,
    sort: given,
    limit,
    revisions,
    ...filter
  } = parseParameters(pageSchema, parameters);
  // New orders can be anywhere in the order of updatedAt: a backfill adds old ones.
  const sort = given ?? (filter.firstSeenSince === undefined ? "updatedAt" : "firstSeenAt");
  const asked = readFilter(filter);
  if (cursor !== undefined && offset !== undefined) {
    throw refuseParameter("cursor and offset cannot be sent together.");
  }
  const after = cursor === undefined ? undefined : readCursor(cursor, sort);
  if (cursor !== undefined && after === undefined) {
    throw refuseParameter("cursor must be one that an answer with the same sort gave.");
  }
  return { ...asked, sort, limit, offset: offset ?? 0, after, revisions: revisions === "1" };
}

function readFilter({ branch, ...filter }: z.infer<typeof filterSchema>): AskedFilter {
  if ((filter.updatedSince === undefined) !== (filter.updatedUntil === undefined)) {
    const message = "updatedSince and updatedUntil must be given together.";
    throw refuseParameter(message, ASSUMED_CODES.updatedPeriodIncomplete);
  }
  return branch === undefined ? filter : { ...filter, branch: nameBranch(branch) };
}

/** Spec, "Branch object": a UUID-formatted value is an id, every other value a reference, compared exactly. */
function nameBranch(value: string): BranchName {
  return UUID.test(value) ? { id: value } : { reference: value };
}
