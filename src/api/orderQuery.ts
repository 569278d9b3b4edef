import { z } from "zod";
import type { OrderFilter } from "../orders/orderFilter.sql.ts";
import { ORDER_SORTS, hasStatus, type OrderPosition, type OrderSort } from "../orders/orderReads.sql.ts";
import {
  assertWholePeriod,
  listFilterSchema,
  oneOf,
  pageParameters,
  ORDER_STATUSES,
  refuseStatus,
} from "../wire/listParameters.ts";
import { refuseParameter, refuseBranch } from "../wire/refusal.ts";
import { findBranch } from "../sources/branches.sql.ts";
import type { Pool } from "../database/database.ts";
import { completeSchema } from "./freshness.ts";
import { parseQuery } from "./parseQuery.ts";
import { tryParseJson } from "../domain/parseJson.ts";
import { IDENTIFIER_LENGTH_MAX } from "../wire/order.ts";

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const TEXT_LENGTH_MAX = 255;
const TEXT_RULE = `a text of 1 to ${TEXT_LENGTH_MAX} characters`;

// The database's text cannot hold NUL, so nothing can match it; refused before it reaches the database.
const text = z
  .string({ error: TEXT_RULE })
  .min(1, TEXT_RULE)
  .max(TEXT_LENGTH_MAX, TEXT_RULE)
  .refine((value) => !value.includes("\0"), TEXT_RULE);

const filterSchema = listFilterSchema.extend({
  fleet: text.optional().describe("Only orders of the fleet with this name."),
});

/** The parameters of an export: those of the list except for pages. */
export const exportSchema = filterSchema.extend(completeSchema.shape);

/** The parameters of the list: the provider's, and our own. */
export const pageSchema = exportSchema.extend({
  sort: oneOf(ORDER_SORTS).default("updatedAt").describe("Ascending. Default updatedAt."),
  ...pageParameters,
  cursor: z
    .string({ error: "given once" })
    .optional()
    .describe(
      'Continues after a page: from the address in Link: rel="next". Cannot be combined with offset.',
    ),
  revisions: z
    .enum(["0", "1"], { error: "0 or 1" })
    .default("0")
    .describe("1: adds the list `revisions`, with the revision of each order as in the change feed."),
});

/** The parameters of an export, parsed. */
export type AskedOrders = z.infer<typeof exportSchema>;

/** Parses the parameters of an export. Throws RefusedRequestError, 422. */
export function parseExportQuery(parameters: URLSearchParams): AskedOrders {
  const asked = parseQuery(exportSchema, parameters);
  assertWholePeriod(asked);
  return asked;
}

/**
 * Parses the parameters of GET /v1/orders (spec, "list orders") and our own: `fleet`, `cursor`, `revisions`,
 * `complete`, `wait` and `sort=firstSeenAt`, in which a new order, however old, comes last. Throws RefusedRequestError,
 * 422.
 */
export function parseOrderQuery(parameters: URLSearchParams) {
  const { cursor, offset, ...asked } = parseQuery(pageSchema, parameters);
  assertWholePeriod(asked);
  if (cursor === undefined) return { ...asked, offset: offset ?? 0 };
  if (offset !== undefined) throw refuseParameter("cursor and offset cannot be sent together.");
  const after = readCursor(cursor, asked.sort);
  if (after === undefined)
    throw refuseParameter("cursor must be one that an answer with the same sort gave.");
  return { ...asked, offset: 0, after };
}

/**
 * The filter of a source's orders, with its branch resolved. Throws RefusedRequestError: 422 invalid_request for a
 * status that is neither known nor that of any order, because the provider may have more statuses than it documents;
 * and 422 branch_not_found for a branch that does not exist (spec, "list orders": an error, not an empty page).
 */
export async function resolveFilter(
  pool: Pool,
  { sourceId, asked }: { sourceId: string; asked: AskedOrders },
): Promise<OrderFilter> {
  const { branch, status } = asked;
  const isKnown = status === undefined || ORDER_STATUSES.some((each) => each === status);
  // The database's text cannot hold NUL, so nothing there can match it.
  if (!isKnown && (status.includes("\0") || !(await hasStatus(pool, { sourceId, status }))))
    throw refuseStatus();
  if (branch === undefined) return { ...asked, sourceId };
  // Spec, "Branch object": a UUID-formatted value is an id, every other value a reference, compared exactly.
  const named = UUID.test(branch) ? { id: branch } : { reference: branch };
  const found = branch.includes("\0") ? undefined : await findBranch(pool, { sourceId, branch: named });
  if (found === undefined) throw refuseBranch();
  return { ...asked, ...found, sourceId };
}

const cursorSchema = z.tuple([
  z.enum(ORDER_SORTS),
  z
    .string()
    .regex(/^-?\d{1,19}$/)
    .transform(BigInt)
    .refine((at) => BigInt.asIntN(64, at) === at)
    .nullable(),
  z.string().max(IDENTIFIER_LENGTH_MAX),
]);

/** A position in a sorted list, as text for an address. Opaque: clients only return it. */
export function writeCursor(sort: OrderSort, position: OrderPosition): string {
  const parts = [sort, position.at === null ? null : String(position.at), position.reference];
  return Buffer.from(JSON.stringify(parts)).toString("base64url");
}

/** Parses a position of writeCursor; undefined if it is invalid or belongs to another sort. */
function readCursor(text: string, sort: OrderSort): OrderPosition | undefined {
  const result = cursorSchema.safeParse(tryParseJson(Buffer.from(text, "base64url").toString()));
  if (!result.success) return undefined;
  const [writtenFor, at, reference] = result.data;
  if (writtenFor !== sort || reference.includes("\0") || (at === null && sort !== "pickupTime"))
    return undefined;
  return { at, reference };
}
