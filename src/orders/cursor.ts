import { z } from "zod";
import { tryParseJson } from "../domain/parseJson.ts";
import { ORDER_SORTS } from "./orderReads.sql.ts";
import type { OrderPosition, OrderSort } from "./orderReads.sql.ts";

const cursorSchema = z.tuple([
  z.enum(ORDER_SORTS),
  z
    .string()
    .regex(/^-?\d{1,19}$/)
    .transform(BigInt)
    .refine((at) => BigInt.asIntN(64, at) === at)
    .nullable(),
  z.string().max(255),
]);

/** A position in a sorted list, as text for an address. Opaque: clients only return it. */
export function writeCursor(sort: OrderSort, position: OrderPosition): string {
  const parts = [sort, position.at === null ? null : String(position.at), position.reference];
  return Buffer.from(JSON.stringify(parts)).toString("base64url");
}

/** Parses a position of writeCursor; undefined if it is invalid or belongs to another sort. */
export function readCursor(text: string, sort: OrderSort): OrderPosition | undefined {
  const result = cursorSchema.safeParse(tryParseJson(Buffer.from(text, "base64url").toString()));
  if (!result.success) return undefined;
  const [writtenFor, at, reference] = result.data;
  if (writtenFor !== sort || reference.includes("\0") || (at === null && sort !== "pickupTime"))
    return undefined;
  return { at, reference };
}
