import { z } from "zod";
import { refuseField } from "./refusal.ts";

/*
 * The bodies of requests, read from the spec anew and not by the schemas of the mirror's wire: what one of them
 * misreads, the contract suite shows by the other.
 */

const addressSchema = z.object({ street: z.string(), city: z.string(), postcode: z.string() });

const customerSchema = z.object({
  firstName: z.string(),
  phone: z.string(),
  // Assumed: the name of this field; the spec only says that the caller's coordinates cost no search.
  address: addressSchema.extend({
    coordinates: z
      .object({ latitude: z.number().min(-90).max(90), longitude: z.number().min(-180).max(180) })
      .optional(),
  }),
});

/** Assumed: null is the same as absent. */
const quoteSchema = z.object({
  branch: z.string(),
  zoneCode: z.string().nullish(),
  customer: customerSchema,
  schedule: z.object({ mode: z.string() }),
});
export type QuoteBody = z.infer<typeof quoteSchema>;

const createSchema = quoteSchema.extend({ externalOrderId: z.string().nullish() });

/** Assumed: any part of the body of a creation, except the caller's own identifier. */
const updateSchema = quoteSchema
  .extend({ customer: customerSchema.extend({ address: customerSchema.shape.address.partial() }).partial() })
  .partial();
export type UpdateBody = z.infer<typeof updateSchema>;

/** Reads the body of POST /v1/orders. Throws invalid_request. */
export function readCreation(body: unknown) {
  const order = readStorable(createSchema, body);
  const { externalOrderId } = order;
  if (externalOrderId === "") throw refuseField("externalOrderId must not be empty.");
  // Clients remove such a segment from a path, so the order could never be named by it.
  if (externalOrderId === "." || externalOrderId === "..")
    throw refuseField("externalOrderId must not be a dot segment.");
  return order;
}

/** Reads the body of POST /v1/orders/quote, where externalOrderId is ignored. Throws invalid_request. */
export const readQuote = (body: unknown) => readStorable(quoteSchema, body);

/** Reads the body of PATCH /v1/orders/{reference}. Throws invalid_request. */
export const readUpdate = (body: unknown) => readStorable(updateSchema, body);

/** Reads the body of POST /v1/addresses/validate, which may hold any text. Throws invalid_request. */
export const readAddress = (body: unknown) => read(addressSchema, body);

function readStorable<Schema extends z.ZodType>(schema: Schema, body: unknown): z.infer<Schema> {
  const given = read(schema, body);
  assertStorable(given);
  return given;
}

/** Names the invalid fields in its refusal, but not their content. */
function read<Schema extends z.ZodType>(schema: Schema, body: unknown): z.infer<Schema> {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const fields = result.error.issues.map((issue) => `${issue.path.join(".") || "body"}: ${issue.code}`);
  throw refuseField(`The request is not valid (${fields.join("; ")}).`);
}

/** Assumed: the spec shows no maximum length for any field. */
const TEXT_LENGTH_MAX = 255;

/** Refuses text that the database cannot hold, or that is too long. */
function assertStorable(value: unknown): void {
  if (typeof value === "object" && value !== null) Object.values(value).forEach(assertStorable);
  if (typeof value !== "string") return;
  if (value.length > TEXT_LENGTH_MAX || value.includes("\0") || !value.isWellFormed())
    throw refuseField(`Each text must be valid, of at most ${TEXT_LENGTH_MAX} characters.`);
}
