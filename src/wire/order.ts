import { hash } from "node:crypto";
import { z } from "zod";
import { canonicalJson, JSON_DEPTH_MAX } from "../domain/order/canonicalJson.ts";
import { UnreadableSnapshotError } from "../domain/errors.ts";
import { tryParseInstant, type Instant } from "../domain/order/instant.ts";
import type { Snapshot } from "../domain/order/order.ts";
import type { OrderFields } from "../domain/order/orderColumns.ts";
import type { ListElement } from "../domain/source/orderSource.ts";
import { rawElements, rawMember, withoutMember } from "./rawJson.ts";

const named = z.looseObject({ name: z.string() });

/**
 * The order object (spec, "Resources and their fields"), as strict as a provider must be. The spec does not show the
 * complete list: unknown fields and statuses are accepted, and parts marked "assumed" are ours (docs/assumptions.md).
 */
export const orderSchema = z.looseObject({
  reference: z.string(),
  externalOrderId: z.string().nullish(),
  status: z.string(),
  livemode: z.boolean(),
  fleet: named,
  schedule: z.looseObject({
    mode: z.string(),
    resolved: z.looseObject({ pickupTime: z.string(), deliveryTime: z.string(), basis: z.string() }),
  }),
  pickupTime: z.string().nullish(),
  deliveryTime: z.string().nullish(),
  realPickupTime: z.string().nullish(),
  realDeliveryTime: z.string().nullish(),
  updatedAt: z.string(),
  /** Assumed: the spec lists orders by branch but does not show the branch in the order. */
  branch: z.looseObject({ id: z.string().nullish(), reference: z.string().nullish() }).nullish(),
});
export type WireOrder = z.infer<typeof orderSchema>;

/** The answer with a single order (create, get, cancel): the order's fields and `request_id`. */
export const orderResponseSchema = orderSchema.extend({ request_id: z.string() });

/** Text that Postgres can hold: a NUL or half a surrogate pair would refuse the whole row. */
const isStorable = (text: string) => !text.includes("\0") && text.isWellFormed();

/** The spec shows no lengths. An index holds no text beyond some 2,700 bytes. */
export const IDENTIFIER_LENGTH_MAX = 1_024;
const IDENTIFIER_BYTES_MAX = 2_048;
const isIndexable = (text: string) =>
  text.length <= IDENTIFIER_LENGTH_MAX && Buffer.byteLength(text) <= IDENTIFIER_BYTES_MAX;
const readableReference = z.string().min(1).refine(isStorable).refine(isIndexable);
const STATUS_LENGTH_MAX = 255;

/** The parts that identify and order a snapshot are required; `readFields` reads what it can of the rest. */
const identifiedOrder = z.object({ reference: z.string().min(1).refine(isStorable), updatedAt: z.string() });

/**
 * Reads an order object from its JSON text. `value` is the result of `JSON.parse(raw)`.
 *
 * A known field that cannot be read becomes null; `raw` keeps it. Throws UnreadableSnapshotError if there is no usable
 * `reference` or `updatedAt`, if `reference` or `externalOrderId` is longer than any index holds, or if the nesting is
 * deeper than any order's.
 */
export function readSnapshot(raw: string, value: unknown): Snapshot {
  const result = identifiedOrder.safeParse(value);
  if (!result.success) throw new UnreadableSnapshotError(`not an order: ${describeMistakes(result.error)}`);
  const { reference, updatedAt } = result.data;
  const externalOrderId = readIdentifier(raw, membersOf(value)["externalOrderId"]);
  for (const [name, text] of Object.entries({ reference, externalOrderId })) {
    if (text !== null && !isIndexable(text))
      throw new UnreadableSnapshotError(`${name} is longer than 1,024 characters, or than 2,048 bytes`);
  }
  const version = tryParseInstant(updatedAt);
  if (version === undefined) throw new UnreadableSnapshotError("not an order: updatedAt is not a date-time");
  const canonical = canonicalJson({ ...membersOf(value), updatedAt: undefined });
  if (canonical === undefined) {
    throw new UnreadableSnapshotError(`not an order: nested deeper than ${JSON_DEPTH_MAX} levels`);
  }
  return {
    fields: readFields({ reference, externalOrderId }, membersOf(value)),
    version,
    hash: hash("sha256", canonical, "hex"),
    raw,
  };
}

/** The reference in a value that may not be a readable order; null if there is none. */
export function readReference(value: unknown): string | null {
  return z.object({ reference: readableReference }).safeParse(value).data?.reference ?? null;
}

/** Reads the answer of a single-order endpoint: `request_id` belongs to the response, not to the order. */
export function readOrderResponse(text: string): Snapshot {
  const raw = withoutMember(text, "request_id");
  return readSnapshot(raw, JSON.parse(raw));
}

/** Null for whatever cannot be read. By hand: a schema for this took a sixth of what interpreting an event costs. */
function readFields(
  { reference, externalOrderId }: Pick<OrderFields, "reference" | "externalOrderId">,
  order: Members,
): OrderFields {
  const fleet = membersOf(order["fleet"]);
  const branch = membersOf(order["branch"]);
  const schedule = membersOf(order["schedule"]);
  const resolved = membersOf(schedule["resolved"]);
  const { livemode } = order;
  return {
    reference,
    externalOrderId,
    status: readText(order["status"], STATUS_LENGTH_MAX) ?? "",
    livemode: typeof livemode === "boolean" ? livemode : null,
    fleetName: readText(fleet["name"]),
    branchId: readText(branch["id"]),
    branchReference: readText(branch["reference"]),
    scheduleMode: readText(schedule["mode"]),
    resolvedPickupTime: readTime(resolved["pickupTime"]),
    resolvedDeliveryTime: readTime(resolved["deliveryTime"]),
    resolvedBasis: readText(resolved["basis"]),
    pickupTime: readTime(order["pickupTime"]),
    deliveryTime: readTime(order["deliveryTime"]),
    realPickupTime: readTime(order["realPickupTime"]),
    realDeliveryTime: readTime(order["realDeliveryTime"]),
  };
}

/**
 * Reads the business's own identifier: of a number its digits as they are in the text, which JSON.parse would round.
 */
function readIdentifier(raw: string, value: unknown): string | null {
  return typeof value === "number" ? (rawMember(raw, "externalOrderId") ?? null) : readText(value);
}

export type Members = Readonly<Record<string, unknown>>;

/** The members of a JSON object; none of anything else. */
export function membersOf(value: unknown): Members {
  return typeof value === "object" && value !== null ? (value as Members) : {};
}

function readText(value: unknown, lengthMax = Infinity): string | null {
  return typeof value === "string" && value.length <= lengthMax && isStorable(value) ? value : null;
}

function readTime(value: unknown): Instant | null {
  return tryParseInstant(value) ?? null;
}

/** Paths and kinds of mistakes, never values: those may be personal data. */
export function describeMistakes(error: z.ZodError): string {
  return error.issues.map((issue) => `${issue.path.join(".") || "(root)"} ${issue.code}`).join(", ");
}

/** An element of a page: its exact text, and what `JSON.parse` makes of it. */
export interface PageElement {
  readonly raw: string;
  readonly value: unknown;
}

/** A page of GET /v1/orders as the mirror reads it: the elements as they came, not yet read as orders. */
export interface RawPage {
  readonly elements: readonly PageElement[];
  readonly hasMore: boolean;
  /** The limit that the provider reports: it may be lower than the requested one. */
  readonly limit: number;
  readonly offset: number;
}

const pageSchema = z.object({
  data: z.array(z.unknown()),
  hasMore: z.boolean(),
  limit: z.number().int().positive(),
  offset: z.number().int().nonnegative(),
});

/** Reads a list response (spec, "GET /v1/orders"), with its JSON. Throws UnreadableSnapshotError when it is not one. */
export function readPage({ text, value }: { readonly text: string; readonly value: unknown }): RawPage {
  const result = pageSchema.safeParse(value);
  if (!result.success) {
    throw new UnreadableSnapshotError("the list response lacks data, hasMore, limit or offset");
  }
  const { data, hasMore, limit, offset } = result.data;
  const raws = rawElements(rawMember(text, "data") ?? "[]");
  const elements = data.map((element, index) => ({ raw: raws[index] ?? "", value: element }));
  return { elements, hasMore, limit, offset };
}

/** An element of a page as an order, or with its problem. */
export function readListed({ raw, value }: PageElement): ListElement {
  try {
    return { kind: "order", snapshot: readSnapshot(raw, value) };
  } catch (error) {
    if (!(error instanceof UnreadableSnapshotError)) throw error;
    return { kind: "unreadable", raw, detail: error.message, reference: readReference(value) };
  }
}
