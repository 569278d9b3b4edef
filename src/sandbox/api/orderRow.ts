import type { Instant } from "../../domain/order/instant.ts";
import { ORDER_STATUSES } from "../../wire/listParameters.ts";
import type { WireOrder } from "../../wire/order.ts";
import type { Granularity } from "../control/faults.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import { formatTime } from "../world/times.ts";

/** In life-cycle order. Assumed: `delivered` is final; the spec's list is incomplete. */
export type Status = (typeof ORDER_STATUSES)[number];

/** The status after `status`, or undefined after the last one. */
export function nextStatus(status: Status): Status | undefined {
  return status === "delivered" || status === "cancelled"
    ? undefined
    : ORDER_STATUSES[ORDER_STATUSES.indexOf(status) + 1];
}

/** Who created the order; only orders of the sandbox's own traffic have random accidents. */
export type Origin = "api" | "traffic" | "seed";

export interface OrderRow {
  readonly number: bigint;
  readonly organizationId: string;
  readonly livemode: boolean;
  readonly reference: string;
  readonly externalOrderId: string | null;
  readonly origin: Origin;
  readonly status: Status;
  readonly branchId: string;
  readonly zoneCode: string;
  readonly firstName: string;
  readonly phone: string;
  readonly street: string;
  readonly city: string;
  readonly postcode: string;
  readonly latitude: number;
  readonly longitude: number;
  readonly distanceKm: number;
  readonly scheduleMode: string;
  readonly basis: string;
  readonly pickupTime: Instant;
  readonly deliveryTime: Instant;
  readonly realPickup: Instant | null;
  readonly realDelivery: Instant | null;
  readonly createdAt: Instant;
  readonly updatedAt: Instant;
  /** When the fleet takes the next step; null if it takes none. */
  readonly nextMoveAt: Instant | null;
}

/** The order object (spec, "Resources and their fields"), without request_id. */
export function showOrder(
  { directory, faults, utcOffsetMinutes, decisions }: SandboxState,
  row: OrderRow,
  granularity: Granularity = faults.current().timestampGranularity,
): WireOrder {
  const branch = directory.branchById(row.branchId);
  const zone = directory.zoneByCode(row.zoneCode);
  const planned = (instant: Instant) => formatTime(instant, "s", utcOffsetMinutes);
  const exact = (instant: Instant) => formatTime(instant, granularity, utcOffsetMinutes);
  return {
    reference: row.reference,
    externalOrderId: row.externalOrderId,
    status: row.status,
    livemode: row.livemode,
    fleet: { name: zone.fleetName },
    // Assumed: the spec does not show the complete list of fields. Also assumed: externalOrderId is null if the caller
    // sent none.
    ...(decisions.orderFields === "all" && {
      zone: { code: zone.code, name: zone.name },
      branch:
        decisions.branchInOrder === "full"
          ? { id: branch.branchId, reference: branch.reference, name: branch.name }
          : { reference: branch.reference },
      customer: {
        firstName: row.firstName,
        phone: row.phone,
        address: { street: row.street, city: row.city, postcode: row.postcode },
      },
    }),
    schedule: {
      mode: row.scheduleMode,
      resolved: {
        // The planned times are those that the service agreed to.
        pickupTime: planned(row.pickupTime),
        deliveryTime: planned(row.deliveryTime),
        basis: row.basis,
      },
    },
    pickupTime: planned(row.pickupTime),
    deliveryTime: planned(row.deliveryTime),
    // Assumed: null until it has happened.
    realPickupTime: row.realPickup === null ? null : exact(row.realPickup),
    realDeliveryTime: row.realDelivery === null ? null : exact(row.realDelivery),
    ...(decisions.orderFields === "all" && { createdAt: exact(row.createdAt) }),
    updatedAt: exact(row.updatedAt),
  };
}
