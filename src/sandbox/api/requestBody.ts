import type { z } from "zod";
import { addressSchema, createOrderSchema, updateOrderSchema } from "../../wire/api.ts";
import type { CreateOrderRequest, UpdateOrderRequest, WireAddress } from "../../wire/api.ts";
import { refuseParameter } from "../../wire/refusal.ts";

/** Assumed: the spec shows no maximum length for any field. */
const TEXT_LENGTH_MAX = 255;
const DEPTH_MAX = 16;

/** Reads the body of POST /v1/orders. Throws invalid_request. */
export function readCreateOrder(body: unknown): CreateOrderRequest {
  const order = read(createOrderSchema, body);
  const { externalOrderId } = order;
  if (externalOrderId === "") throw refuseParameter("externalOrderId must not be empty.");
  // Clients remove such a segment from a path, so the order could never be named by it.
  if (externalOrderId === "." || externalOrderId === "..")
    throw refuseParameter("externalOrderId must not be a dot segment.");
  return order;
}

/** Reads the body of POST /v1/orders/quote, where externalOrderId is ignored. */
export function readQuoteOrder(body: unknown): CreateOrderRequest {
  const isObject = typeof body === "object" && body !== null && !Array.isArray(body);
  return read(createOrderSchema, isObject ? { ...body, externalOrderId: undefined } : body);
}

/** Reads the body of PATCH /v1/orders/{reference}, an assumed endpoint. */
export function readUpdateOrder(body: unknown): UpdateOrderRequest {
  return read(updateOrderSchema, body);
}

/** Reads the body of POST /v1/addresses/validate, which answers 200 to every address. Throws invalid_request. */
export function readAddress(body: unknown): WireAddress {
  return parse(addressSchema, body);
}

/** Whether the database can hold the text, and its length is allowed. */
export function isStorable(text: string): boolean {
  return Array.from(text).length <= TEXT_LENGTH_MAX && !text.includes("\0") && text.isWellFormed();
}

function read<Schema extends z.ZodType>(schema: Schema, body: unknown): z.infer<Schema> {
  const given = parse(schema, body);
  assertStorable(given, "body", 0);
  return given;
}

function parse<Schema extends z.ZodType>(schema: Schema, body: unknown): z.infer<Schema> {
  const result = schema.safeParse(body);
  if (!result.success) throw refuseParameter(describe(result.error));
  return result.data;
}

/** Names the invalid fields, but not their content. */
function describe(error: z.ZodError): string {
  const fields = error.issues.map((issue) => `${issue.path.join(".") || "body"}: ${issue.code}`);
  return `The request is not valid (${fields.join("; ")}).`;
}

/** Text that the database can hold; addresses are left to the search, which has codes of its own for them. */
function assertStorable(value: unknown, path: string, depth: number): void {
  if (depth > DEPTH_MAX) throw refuseParameter(`${path} is nested too deeply.`);
  if (typeof value === "string") {
    if (!isStorable(value))
      throw refuseParameter(`${path} must be text of at most ${TEXT_LENGTH_MAX} characters.`);
  } else if (typeof value === "object" && value !== null) {
    for (const [key, member] of Object.entries(value))
      if (key !== "address") assertStorable(member, `${path}.${key}`, depth + 1);
  }
}
