import { z } from "zod";
import { tryParseBound } from "../domain/order/instant.ts";
import { ASSUMED_CODES } from "./api.ts";
import { refuseParameter } from "./refusal.ts";

/** Spec, "Limits": list page size and offset. Assumed: the maximum of the offset. */
const LIMIT_MAX = 200;
const LIMIT_DEFAULT = 50;
const OFFSET_MAX = 1_000_000_000;

/** Assumed: the last but one; the spec shows no status between arrived_for_delivery and the end of an order. */
export const ORDER_STATUSES = [
  "created",
  "arrived_for_pickup",
  "picked_up",
  "arrived_for_delivery",
  "delivered",
  "cancelled",
] as const;

const TIME_RULE = "an ISO 8601 date-time with offset (write + as %2B in an address)";
const ONCE_RULE = "given once";

/** An instant as a bound; a year that no order can have becomes the nearest one that it can. */
export const timeParameter = z
  .string({ error: TIME_RULE })
  .meta({ format: "date-time" })
  .transform((text, context) => {
    const instant = tryParseBound(text);
    if (instant !== undefined) return instant;
    context.issues.push({ code: "custom", message: TIME_RULE, input: text });
    return z.NEVER;
  });

const name = z.string({ error: ONCE_RULE });

export const listFilterSchema = z.object({
  updatedSince: timeParameter
    .optional()
    .describe("Inclusive start of the update period; requires updatedUntil."),
  updatedUntil: timeParameter
    .optional()
    .describe("Exclusive end of the update period; requires updatedSince."),
  pickupFrom: timeParameter.optional().describe("Inclusive start of the period of planned pickups."),
  pickupUntil: timeParameter.optional().describe("Exclusive end of the period of planned pickups."),
  deliveryFrom: timeParameter.optional().describe("Inclusive start of the period of planned deliveries."),
  deliveryUntil: timeParameter.optional().describe("Exclusive end of the period of planned deliveries."),
  status: name.optional().describe("Only orders with this status."),
  branch: name.optional().describe("A branch's reference or id; closed branches too."),
});

export const pageParameters = {
  limit: wholeNumber({ min: 1, max: LIMIT_MAX })
    .default(LIMIT_DEFAULT)
    .describe(`Orders per page. Default ${LIMIT_DEFAULT}.`),
  offset: wholeNumber({ min: 0, max: OFFSET_MAX }).optional().describe("How many orders to skip. Default 0."),
};

/**
 * Parses parameters with a schema whose messages complete "<name> must be …".
 *
 * Assumed: unknown parameters are ignored; a repeated or unreadable one is refused instead of guessed. Throws
 * RefusedRequestError, 422 invalid_request.
 */
export function parseParameters<Schema extends z.ZodType>(
  schema: Schema,
  parameters: URLSearchParams,
): z.infer<Schema> {
  const result = schema.safeParse(collectParameters(parameters));
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw refuseParameter(`${String(issue?.path[0])} must be ${issue?.message}.`);
}

/** Throws 422 updated_period_incomplete, an assumed code, if only one end of the period is given. */
export function assertWholePeriod(period: {
  readonly updatedSince?: unknown;
  readonly updatedUntil?: unknown;
}) {
  if ((period.updatedSince === undefined) === (period.updatedUntil === undefined)) return;
  const message = "updatedSince and updatedUntil must be sent together.";
  throw refuseParameter(message, ASSUMED_CODES.updatedPeriodIncomplete);
}

/** Assumed: a status that is not known is refused. */
export function refuseStatus() {
  return refuseParameter(`status must be one of ${ORDER_STATUSES.join(", ")}.`);
}

/** Assumed: a value outside the list is refused. */
export function oneOf<const Values extends readonly string[]>(values: Values) {
  return z.enum(values, { error: `one of ${values.join(", ")}` });
}

/** A parameter that is a whole number in decimal digits, bounds inclusive. Assumed: leading zeros do not matter. */
export function wholeNumber({ min, max }: { min: number; max: number }) {
  const rule = `a whole number from ${min} to ${max}`;
  return z
    .string({ error: rule })
    .regex(/^\d+$/, rule)
    .meta({ type: "integer", minimum: min, maximum: max })
    .transform(Number)
    .refine((value) => value >= min && value <= max, rule);
}

/** A repeated parameter becomes a list, which no rule accepts. */
function collectParameters(parameters: URLSearchParams): Record<string, unknown> {
  const names = new Set(parameters.keys());
  return Object.fromEntries(
    [...names].map((each) => {
      const values = parameters.getAll(each);
      return [each, values.length === 1 ? values[0] : values];
    }),
  );
}
