import type { UpdateOrderRequest } from "../../wire/api.ts";
import { searchKey } from "../places/geocode.ts";
import type { ApiAnswer, ApiRequest } from "./apiRequest.ts";
import { findForChange, moveOrders, patchOrder } from "./orderBook.ts";
import type { OrderPatch } from "./orderBook.ts";
import { nextStatus, showOrder } from "./orderRow.ts";
import { ORDER_STATUSES } from "../../wire/listParameters.ts";
import type { OrderRow, Status } from "./orderRow.ts";
import { readOrder } from "./order.sql.ts";
import type { OrderName } from "./order.sql.ts";
import { readUpdateOrder } from "./requestBody.ts";
import { describeRoute, routeOrder } from "../places/routeOrder.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import { refused } from "./errors.ts";
import { ORDER_NOT_FOUND, RefusedRequestError } from "../../wire/refusal.ts";

/** The last status in which each may cancel (spec, "States and transitions"). */
const CANCELLATION_LIMITS = { business: "arrived_for_pickup", fleet: "arrived_for_delivery" } as const;

/** GET /v1/orders/{reference}. */
export async function getOrder(state: SandboxState, request: ApiRequest): Promise<ApiAnswer> {
  const name = nameOrder(request);
  const row = await readOrder(state.pool, name);
  if (!row) throw new RefusedRequestError(ORDER_NOT_FOUND);
  return showAnswer(state, row);
}

/** POST /v1/orders/{reference}/cancel. */
export async function cancelOrder(state: SandboxState, request: ApiRequest): Promise<ApiAnswer> {
  const name = nameOrder(request);
  const row = await state.write(async (connection) => {
    const before = await findForChange(connection, name);
    // The organization that delivers its own orders is their fleet (spec, "States and transitions", rule 2).
    const isOwnFleet = state.directory.zoneByCode(before.zoneCode).fleetOwnerId === before.organizationId;
    assertCancellable(before, isOwnFleet ? "fleet" : "business");
    const [cancelled] = await moveOrders(state, connection, [{ row: before, status: "cancelled" }]);
    return cancelled ?? before;
  });
  state.wake();
  return showAnswer(state, row);
}

/** Throws order_not_cancellable if `by` may no longer cancel the order. */
export function assertCancellable(row: OrderRow, by: keyof typeof CANCELLATION_LIMITS): void {
  const limit = CANCELLATION_LIMITS[by];
  if (row.status !== "cancelled" && ORDER_STATUSES.indexOf(row.status) <= ORDER_STATUSES.indexOf(limit))
    return;
  const message =
    row.status === "cancelled" ? "The order is already cancelled." : `The order is past ${limit}.`;
  throw refused(422, "order_not_cancellable", message);
}

/** POST /v1/test/orders/{reference}/advance. Assumed: answers with the order; a live key gets 404. */
export async function advanceOrder(state: SandboxState, request: ApiRequest): Promise<ApiAnswer> {
  const name = nameOrder(request);
  if (request.caller.livemode) throw new RefusedRequestError(ORDER_NOT_FOUND);
  const row = await state.write(async (connection) => {
    const before = await findForChange(connection, name);
    const [advanced] = await moveOrders(state, connection, [{ row: before, status: mustAdvance(before) }]);
    return advanced ?? before;
  });
  state.wake();
  return showAnswer(state, row);
}

/** The status after the order's own. Throws order_not_advanceable if there is none. */
export function mustAdvance(row: OrderRow): Status {
  const next = nextStatus(row.status);
  if (next) return next;
  // Assumed: the code; the spec shows none for this endpoint.
  throw refused(422, "order_not_advanceable", `An order in ${row.status} has no next status.`);
}

/**
 * PATCH /v1/orders/{reference}. Entirely assumed: the spec says that orders can be changed, but not how. It accepts any
 * part of the body of a creation while the business could still cancel the order; a new branch, zone or address is
 * checked, routed and scheduled again. Sends no event, like creation.
 */
export async function updateOrder(state: SandboxState, request: ApiRequest): Promise<ApiAnswer> {
  const name = nameOrder(request);
  const update = readUpdateOrder(request.body);
  const row = await state.write(async (connection) => {
    const before = await findForChange(connection, name);
    if (before.status !== "created" && before.status !== "arrived_for_pickup") {
      throw refused(422, "order_not_changeable", `The order is ${before.status}.`);
    }
    const patch = await planPatch(state, before, update);
    return Object.keys(patch).length === 0 ? before : patchOrder(state, connection, before, patch);
  });
  return showAnswer(state, row);
}

async function planPatch(
  state: SandboxState,
  before: OrderRow,
  { branch, zoneCode, customer, schedule }: UpdateOrderRequest,
): Promise<OrderPatch> {
  const { firstName = before.firstName, phone = before.phone } = customer ?? {};
  const who = customer === undefined ? {} : { firstName, phone };
  const address = changeAddress(before, customer?.address ?? {});
  if (branch === undefined && zoneCode === undefined && address === undefined && !schedule) return who;
  const route = await routeOrder(state, before.organizationId, {
    branch: branch ?? before.branchId,
    // Another branch has other zones; the old zone is kept only for the old branch.
    zoneCode: zoneCode === undefined && branch === undefined ? before.zoneCode : zoneCode,
    schedule: schedule ?? { mode: before.scheduleMode },
    customer: { address: address ?? keepAddress(before) },
  });
  return { ...who, ...describeRoute(route) };
}

/** The new address, with what was not given as before; undefined if it is the same place, however it is written. */
function changeAddress(before: OrderRow, given: NonNullable<UpdateOrderRequest["customer"]>["address"] = {}) {
  const { coordinates, street = before.street, city = before.city, postcode = before.postcode } = given;
  const address = { street, city, postcode };
  const isSameText = searchKey(address) === searchKey(before);
  const isSamePlace =
    coordinates === undefined ||
    (coordinates.latitude === before.latitude && coordinates.longitude === before.longitude);
  if (isSameText && isSamePlace) return undefined;
  return coordinates === undefined ? address : { ...address, coordinates };
}

function keepAddress(row: OrderRow) {
  const { street, city, postcode, latitude, longitude } = row;
  return { street, city, postcode, coordinates: { latitude, longitude } };
}

/** The order object as an answer; the caller adds request_id. */
export function showAnswer(state: SandboxState, row: OrderRow, status = 200): ApiAnswer {
  return { status, body: showOrder(state, row) };
}

function nameOrder({ caller, reference }: ApiRequest): OrderName {
  // The database's text cannot hold NUL, so no order has such a name.
  if (reference.includes("\0")) throw new RefusedRequestError(ORDER_NOT_FOUND);
  return { organizationId: caller.organization.organizationId, livemode: caller.livemode, name: reference };
}
