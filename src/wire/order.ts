import { hash } from "node:crypto";
import { z } from "zod";
import { canonicalJson, JSON_DEPTH_MAX } from "../domain/canonicalJson.ts";
import { UnreadableSnapshotError } from "../domain/errors.ts";
import { tryParseInstant } from "../domain/instant.ts";
import type { OrderFields, Snapshot } from "../domain/order.ts";
import { withoutMember } from "./rawJson.ts";

const named = z.looseObject({ name: z.string() });

/**
 * The order object (spec, "Resources and their fields"), as strictly as a provider must keep to it. The spec does
 * not show the complete list: unknown fields and unknown statuses pass, and what is marked "assumed" is ours
 * (docs/assumptions.md).
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
  branch: z.looseObject({ id: z.string(), reference: z.string().nullish() }).nullish(),
});
export type WireOrder = z.infer<typeof orderSchema>;

/** What comes with a single order (create, get, cancel): the order with `request_id` beside its fields. */
export const orderResponseSchema = orderSchema.extend({ request_id: z.string() });

/** Text that Postgres can hold: a NUL or half a surrogate pair would refuse the whole row. */
const isStorable = (text: string) => !text.includes("\0") && !/\p{Surrogate}/u.test(text);
const optionalText = z.string().refine(isStorable).nullable().catch(null);
const optionalTime = z
  .unknown()
  .optional()
  .transform((value) => tryParseInstant(value) ?? null);
const resolvedShape = { pickupTime: optionalTime, deliveryTime: optionalTime, basis: optionalText };
const noResolved = { pickupTime: null, deliveryTime: null, basis: null };

// An index holds no text beyond some 2,700 bytes.
const readableReference = z.string().min(1).max(255).refine(isStorable);

/** As leniently as the mirror reads: only what identifies and orders a snapshot must be there. */
const readableOrder = z.object({
  reference: readableReference,
  updatedAt: z.string(),
  status: z.string().max(255).refine(isStorable).catch(""),
  externalOrderId: z.string().max(512).refine(isStorable).nullable().catch(null),
  livemode: z.boolean().nullable().catch(null),
  fleet: z.object({ name: optionalText }).catch({ name: null }),
  branch: z.object({ id: optionalText, reference: optionalText }).nullish().catch(null),
  schedule: z
    .object({ mode: optionalText, resolved: z.object(resolvedShape).catch(noResolved) })
    .catch({ mode: null, resolved: noResolved }),
  pickupTime: optionalTime,
  deliveryTime: optionalTime,
  realPickupTime: optionalTime,
  realDeliveryTime: optionalTime,
});

/**
 * Reads an order object out of its JSON text. `value` is what `JSON.parse` made of `raw`.
 *
 * A field that the mirror knows but cannot read becomes null; `raw` keeps it. Throws UnreadableSnapshotError when
 * there is no usable `reference` or `updatedAt`, or when the nesting is deeper than any order's.
 */
export function readSnapshot(raw: string, value: unknown): Snapshot {
  const result = readableOrder.safeParse(value);
  if (!result.success) throw new UnreadableSnapshotError(`not an order: ${describe(result.error)}`);
  const order = result.data;
  const version = tryParseInstant(order.updatedAt);
  if (version === undefined) throw new UnreadableSnapshotError("not an order: updatedAt is not a date-time");
  const canonical = canonicalJson(value);
  if (canonical === undefined) {
    throw new UnreadableSnapshotError(`not an order: nested deeper than ${JSON_DEPTH_MAX} levels`);
  }
  return {
    fields: toFields(order),
    version,
    hash: hash("sha256", canonical, "hex"),
    raw,
  };
}

/** The reference in something that need not be a readable order; null when there is none. */
export function readReference(value: unknown): string | null {
  return z.object({ reference: readableReference }).safeParse(value).data?.reference ?? null;
}

/** Reads the answer of a single-order endpoint: `request_id` belongs to the response, not to the order. */
export function readOrderResponse(text: string): Snapshot {
  const raw = withoutMember(text, "request_id");
  return readSnapshot(raw, JSON.parse(raw));
}

function toFields(order: z.infer<typeof readableOrder>): OrderFields {
  return {
    reference: order.reference,
    externalOrderId: order.externalOrderId,
    status: order.status,
    livemode: order.livemode,
    fleetName: order.fleet.name,
    branchId: order.branch?.id ?? null,
    branchReference: order.branch?.reference ?? null,
    scheduleMode: order.schedule.mode,
    resolvedPickupTime: order.schedule.resolved.pickupTime,
    resolvedDeliveryTime: order.schedule.resolved.deliveryTime,
    resolvedBasis: order.schedule.resolved.basis,
    pickupTime: order.pickupTime,
    deliveryTime: order.deliveryTime,
    realPickupTime: order.realPickupTime,
    realDeliveryTime: order.realDeliveryTime,
  };
}

/** Paths and kinds of mistakes, never values: those may be personal data. */
function describe(error: z.ZodError): string {
  return error.issues.map((issue) => `${issue.path.join(".") || "(root)"} ${issue.code}`).join(", ");
}
