import { z } from "zod";
import { tryParseInstant } from "../domain/instant.ts";
import { ORDER_SORTS } from "../mirror/orderReads.ts";
import type { BranchName, OrdersQuery } from "../mirror/orderReads.ts";
import { readCursor } from "./cursor.ts";
import { refuseParameter } from "./errors.ts";
import { parseParameters, wholeNumber } from "./parameters.ts";

/** Spec, "Limits": list page size and offset. */
const LIMIT_MAX = 200;
const LIMIT_DEFAULT = 50;
const OFFSET_MAX = 1_000_000_000;
const TEXT_LENGTH_MAX = 255;

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const TIME_RULE = "an ISO 8601 date-time with offset (a + is written %2B in an address)";
const TEXT_RULE = `a text of 1 to ${TEXT_LENGTH_MAX} characters`;

const time = z.string({ error: TIME_RULE }).transform((text, context) => {
  const instant = tryParseInstant(text);
  if (instant !== undefined) return instant;
  context.issues.push({ code: "custom", message: TIME_RULE, input: text });
  return z.NEVER;
});
// The database's text holds no NUL, so nothing there can match one; refused before it reaches the database.
const text = z
  .string({ error: TEXT_RULE })
  .min(1, TEXT_RULE)
  .max(TEXT_LENGTH_MAX, TEXT_RULE)
  .refine((value) => !value.includes("\0"), TEXT_RULE);

const parametersSchema = z.object({
  updatedSince: time.optional(),
  updatedUntil: time.optional(),
  pickupFrom: time.optional(),
  pickupUntil: time.optional(),
  deliveryFrom: time.optional(),
  deliveryUntil: time.optional(),
  status: text.optional(),
  branch: text.optional(),
  sort: z.enum(ORDER_SORTS, { error: `one of ${ORDER_SORTS.join(", ")}` }).default("updatedAt"),
  limit: wholeNumber({ min: 1, max: LIMIT_MAX }).default(LIMIT_DEFAULT),
  offset: wholeNumber({ min: 0, max: OFFSET_MAX }).optional(),
  cursor: z.string({ error: "given once" }).optional(),
});

/**
 * The parameters of GET /v1/orders (spec, "list orders"), and `cursor`, which is ours. Throws RefusedRequestError,
 * 422 invalid_parameter.
 */
export function parseOrderQuery(parameters: URLSearchParams): Omit<OrdersQuery, "sourceId"> {
  const { branch, cursor, offset: skipped, ...rest } = parseParameters(parametersSchema, parameters);
  if ((rest.updatedSince === undefined) !== (rest.updatedUntil === undefined)) {
    throw refuseParameter("updatedSince and updatedUntil must be sent together.");
  }
  if (cursor !== undefined && skipped !== undefined) {
    throw refuseParameter("cursor and offset cannot be sent together.");
  }
  const after = cursor === undefined ? undefined : readCursor(cursor, rest.sort);
  if (cursor !== undefined && after === undefined) {
    throw refuseParameter("cursor must be one that an answer with the same sort gave.");
  }
  return {
    ...rest,
    offset: skipped ?? 0,
    after,
    branch: branch === undefined ? undefined : nameBranch(branch),
  };
}

/** Spec, "Branch object": a UUID-formatted value is an id, every other value a reference, compared exactly. */
function nameBranch(value: string): BranchName {
  return UUID.test(value) ? { id: value } : { reference: value };
}
