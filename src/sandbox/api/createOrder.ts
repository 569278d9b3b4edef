import type { ApiAnswer, ApiRequest } from "./apiRequest.ts";
import type { Connection } from "../world/database.ts";
import { addOrders } from "./orderBook.ts";
import { readLateOrder, readOrderByExternalId } from "./order.sql.ts";
import { readAddress, readCreateOrder, readQuoteOrder } from "./requestBody.ts";
import { describeRoute, routeOrder } from "../places/routeOrder.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import { ADDRESS_MESSAGES, searchAddress } from "../places/searchAddress.ts";
import { showAnswer } from "./singleOrders.ts";
import { formatTime } from "../world/times.ts";
import { refused } from "./errors.ts";

/**
 * POST /v1/orders. Assumed order of checks: subscription, body, duplicate, branch, zone, address, shifts; so a retry of
 * a successful creation gets the duplicate error even if its branch has closed since. Assumed: no quota of orders is
 * enforced, because the spec only invoices extra ones.
 */
export async function createOrder(state: SandboxState, request: ApiRequest): Promise<ApiAnswer> {
  const { organization, livemode } = request.caller;
  const order = readCreateOrder(request.body);
  const externalOrderId = order.externalOrderId ?? null;
  const { organizationId } = organization;
  await assertNotDuplicate(state.pool, { organizationId, livemode, externalOrderId });
  const route = await routeOrder(state, organizationId, order);
  const row = await state.write(async (connection) => {
    // Checked again: two requests with the same identifier may both have passed the first check.
    await assertNotDuplicate(connection, { organizationId, livemode, externalOrderId });
    const [created] = await addOrders(state, connection, [
      {
        organizationId,
        livemode,
        externalOrderId,
        origin: "api",
        firstName: order.customer.firstName,
        phone: order.customer.phone,
        scheduleMode: order.schedule.mode,
        ...describeRoute(route),
      },
    ]);
    return created;
  });
  if (!row) throw new TypeError("an order was added but none came back");
  state.wake();
  return showAnswer(state, row, 201);
}

/** POST /v1/orders/quote: routes an order without creating it. */
export async function quoteOrder(state: SandboxState, request: ApiRequest): Promise<ApiAnswer> {
  const { organization } = request.caller;
  if (organization.plan !== "advanced") {
    throw refused(403, "feature_not_available", "The plan has no quotes.");
  }
  const order = readQuoteOrder(request.body);
  const { zone, distanceKm, times } = await routeOrder(state, organization.organizationId, order, {
    isQuote: true,
  });
  const show = (instant: bigint) => formatTime(instant, "s", state.utcOffsetMinutes);
  return {
    status: 200,
    body: {
      fleet: { name: zone.fleetName },
      zone: { code: zone.code, name: zone.name },
      distance: distanceKm,
      schedule: {
        mode: order.schedule.mode,
        resolved: {
          pickupTime: show(times.pickupTime),
          deliveryTime: show(times.deliveryTime),
          basis: times.basis,
        },
      },
    },
  };
}

/** POST /v1/addresses/validate: answers 200 for every address. */
export async function validateAddress(state: SandboxState, request: ApiRequest): Promise<ApiAnswer> {
  const address = readAddress(request.body);
  const found = await searchAddress(state, request.caller.organization.organizationId, address);
  if (found.valid) {
    return {
      status: 200,
      body: { valid: true, coordinates: found.coordinates, normalized: found.normalized },
    };
  }
  return {
    status: 200,
    body: { valid: false, reason: found.reason, message: ADDRESS_MESSAGES[found.reason] },
  };
}

/** Assumed: identifiers are unique per organization and mode, and those of cancelled orders stay taken. */
async function assertNotDuplicate(
  connection: Connection,
  order: { organizationId: string; livemode: boolean; externalOrderId: string | null },
): Promise<void> {
  const { externalOrderId, ...owner } = order;
  if (externalOrderId === null) return;
  const name = { ...owner, name: externalOrderId };
  const known = (await readOrderByExternalId(connection, name)) ?? (await readLateOrder(connection, name));
  if (known?.externalOrderId === externalOrderId) {
    throw refused(409, "duplicate_external_order_id", "The externalOrderId is already used.");
  }
}
