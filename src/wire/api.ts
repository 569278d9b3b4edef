import { z } from "zod";
import { orderSchema } from "./order.ts";

/** Bodies of the provider's endpoints (spec, "Endpoints"). Times are ISO 8601 with offset. */

export const addressSchema = z.object({ street: z.string(), city: z.string(), postcode: z.string() });

const coordinatesSchema = z.object({
  latitude: z.number().min(-90).max(90),
  longitude: z.number().min(-180).max(180),
});

/** Assumed: `coordinates`, given by a caller who knows them ("the caller's coordinates cost nothing"). */
const deliveryAddressSchema = addressSchema.extend({ coordinates: coordinatesSchema.optional() });

const customerSchema = z.object({
  firstName: z.string(),
  phone: z.string(),
  address: deliveryAddressSchema,
});

/** Body of POST /v1/orders and POST /v1/orders/quote. Assumed: null is the same as absent, as in what is read. */
export const createOrderSchema = z.object({
  externalOrderId: z.string().nullish(),
  branch: z.string(),
  zoneCode: z.string().nullish(),
  customer: customerSchema,
  schedule: z.object({ mode: z.string() }),
});

/**
 * Body of PATCH /v1/orders/{reference}. Assumed, like the method and the path: the spec only says that orders can be
 * changed. Any part of what a creation takes, except the caller's own identifier.
 */
export const updateOrderSchema = createOrderSchema
  .omit({ externalOrderId: true })
  .extend({ customer: customerSchema.extend({ address: deliveryAddressSchema.partial() }).partial() })
  .partial();

const resolvedSchema = z.looseObject({ pickupTime: z.string(), deliveryTime: z.string(), basis: z.string() });
const zoneSchema = z.looseObject({ code: z.string(), name: z.string() });

/** Answer of POST /v1/orders/quote. `distance` in kilometres with two decimals. */
export const quoteResponseSchema = z.looseObject({
  fleet: z.looseObject({ name: z.string() }),
  zone: zoneSchema,
  distance: z.number(),
  schedule: z.looseObject({ mode: z.string(), resolved: resolvedSchema }),
  request_id: z.string(),
});

/** Answer of GET /v1/orders. The mirror reads the orders from the text, to keep them as they came. */
export const listOrdersResponseSchema = z.looseObject({
  data: z.array(orderSchema),
  hasMore: z.boolean(),
  limit: z.number().int(),
  offset: z.number().int(),
  request_id: z.string(),
});

const branchSchema = z.looseObject({
  id: z.string(),
  reference: z.string().nullable(),
  name: z.string(),
  address: addressSchema.loose(),
  routesTo: z.looseObject({ fleet: z.looseObject({ name: z.string() }), zone: zoneSchema }).nullable(),
  connectedZones: z.array(z.looseObject({ code: z.string(), name: z.string(), isPrimary: z.boolean() })),
});

export const listBranchesResponseSchema = z.looseObject({
  data: z.array(branchSchema),
  hasMore: z.boolean(),
  // The spec says that responses carry it, but shows it only for lists of orders and single ones.
  request_id: z.string().optional(),
});

/** What the mirror reads of a page of branches; the rest is kept as it came, and one odd branch hides no other. */
export const branchPageSchema = z.looseObject({
  data: z.array(z.looseObject({ id: z.string() })),
  hasMore: z.boolean(),
});

const ADDRESS_REASONS = ["address_not_found", "address_ambiguous", "address_low_confidence"] as const;

/** Codes that the spec leaves open; the sandbox and the read API answer with the same ones. */
export const ASSUMED_CODES = {
  invalidRequest: "invalid_request",
  updatedPeriodIncomplete: "updated_period_incomplete",
  branchNotFound: "branch_not_found",
} as const;

/** Answer of POST /v1/addresses/validate, which is 200 in every case. */
export const validateAddressResponseSchema = z.discriminatedUnion("valid", [
  z.looseObject({
    valid: z.literal(true),
    coordinates: z.looseObject({ latitude: z.number(), longitude: z.number() }),
    normalized: addressSchema.loose(),
    request_id: z.string(),
  }),
  z.looseObject({
    valid: z.literal(false),
    reason: z.enum(ADDRESS_REASONS),
    message: z.string(),
    request_id: z.string(),
  }),
]);

/**
 * Body of a refused request. Assumed: the spec does not show its shape, only that there is a code and, at least
 * for 429, a message, and that `request_id` is at the top level. A code at the top level is read as well.
 */
export const errorBodySchema = z.looseObject({
  error: z.looseObject({ code: z.string(), message: z.string().optional() }),
  request_id: z.string().optional(),
});
