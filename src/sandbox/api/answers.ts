import { refuseBranch, refuseOrder, refused } from "./refusal.ts";
import { readAddress, readCreation, readQuote, readUpdate, type UpdateBody } from "./bodies.ts";
import { addOrders, findForChange, moveOrders, patchOrder, type OrderPatch } from "./orderBook.ts";
import { isTaken, readOrder, readOrders, type OrderName } from "./orders.sql.ts";
import { routeOrder, ADDRESS_MESSAGES, searchAddress } from "../world/routing.ts";
import { formatTime, nextStatus, showOrder, type OrderRow } from "./orderRow.ts";
import { type SandboxState } from "../world/state.ts";
import { readListParameters, STATUSES, type Status } from "./parameters.ts";
import { searchKey } from "../world/gazetteer.ts";
import type { Caller } from "../world/directory.ts";

/** A request with a known key and budget left. */
export interface ApiRequest {
  readonly caller: Caller;
  /** The decoded `{reference}` of the path; empty if the path has none. */
  readonly reference: string;
  readonly query: URLSearchParams;
  /** The parsed JSON body; undefined if there is none. */
  readonly body: unknown;
}

/** The body of an answer, without request_id. */
type Body = Readonly<Record<string, unknown>>;
export type Answerer = (state: SandboxState, request: ApiRequest) => Promise<Body>;

/**
 * POST /v1/orders. Assumed order of checks: subscription, body, duplicate, branch, zone, address, shifts; so a retry of
 * a successful creation gets the duplicate error even if its branch has closed since. Assumed: no quota of orders is
 * enforced, because the spec only invoices extra ones.
 */
export async function createOrder(state: SandboxState, request: ApiRequest): Promise<Body> {
  const { organization, livemode } = request.caller;
  const order = readCreation(request.body);
  const externalOrderId = order.externalOrderId ?? null;
  const { organizationId } = organization;
  const row = await state.write(async (connection) => {
    // Assumed: identifiers are unique per organization and mode, and those of cancelled orders stay taken.
    if (
      externalOrderId !== null &&
      (await isTaken(connection, { organizationId, livemode, name: externalOrderId }))
    )
      throw refused(409, "duplicate_external_order_id", "The externalOrderId is already used.");
    const route = await routeOrder(state, organizationId, order);
    const { firstName, phone } = order.customer;
    const owner = { organizationId, livemode, externalOrderId, origin: "api" } as const;
    const made = { ...owner, firstName, phone, scheduleMode: order.schedule.mode, ...route };
    const [created] = await addOrders(state, connection, { count: 1, make: () => made });
    return created;
  });
  if (!row) throw new TypeError("an order was added but none came back");
  state.wake();
  return showOrder(state, row);
}

/** POST /v1/orders/quote: routes an order without creating it. */
export async function quoteOrder(state: SandboxState, request: ApiRequest): Promise<Body> {
  const { organization } = request.caller;
  if (organization.plan !== "advanced") {
    throw refused(403, "feature_not_available", "The plan has no quotes.");
  }
  const order = readQuote(request.body);
  const trip = await routeOrder(state, organization.organizationId, order, "quote");
  const zone = state.directory.zoneByCode(trip.zoneCode);
  const show = (instant: bigint) => formatTime(instant, "s", state.utcOffsetMinutes);
  const [pickupTime, deliveryTime] = [show(trip.pickupTime), show(trip.deliveryTime)];
  return {
    fleet: { name: zone.fleetName },
    zone: { code: zone.code, name: zone.name },
    distance: trip.distanceKm,
    schedule: { mode: order.schedule.mode, resolved: { pickupTime, deliveryTime, basis: trip.basis } },
  };
}

/** POST /v1/addresses/validate: answers 200 for every address. */
export async function validateAddress(state: SandboxState, request: ApiRequest): Promise<Body> {
  const address = readAddress(request.body);
  const found = await searchAddress(state, request.caller.organization.organizationId, address);
  return found.valid ? found : { ...found, message: ADDRESS_MESSAGES[found.reason] };
}

/** The last status in which each may cancel (spec, "States and transitions"). */
const CANCELLATION_LIMITS = { business: "arrived_for_pickup", fleet: "arrived_for_delivery" } as const;

/** GET /v1/orders/{reference}. */
export async function getOrder(state: SandboxState, request: ApiRequest): Promise<Body> {
  const row = await readOrder(state.pool, "orders", nameOrder(request));
  if (!row) throw refuseOrder();
  return showOrder(state, row);
}

/** POST /v1/orders/{reference}/cancel. */
export function cancelOrder(state: SandboxState, request: ApiRequest): Promise<Body> {
  return moveOrder(state, request, (row) => {
    // The organization that delivers its own orders is their fleet (spec, "States and transitions", rule 2).
    const isOwnFleet = state.directory.zoneByCode(row.zoneCode).fleetOwnerId === row.organizationId;
    assertCancellable(row, isOwnFleet ? "fleet" : "business");
    return "cancelled";
  });
}

/** POST /v1/test/orders/{reference}/advance. Assumed: answers with the order; a live key gets 404. */
export function advanceOrder(state: SandboxState, request: ApiRequest): Promise<Body> {
  if (request.caller.livemode) throw refuseOrder();
  return moveOrder(state, request, mustAdvance);
}

async function moveOrder(
  state: SandboxState,
  request: ApiRequest,
  decide: (row: OrderRow) => Status,
): Promise<Body> {
  const name = nameOrder(request);
  const row = await state.write(async (connection) => {
    const before = await findForChange(connection, name);
    const [after] = await moveOrders(state, connection, [{ row: before, status: decide(before) }]);
    return after ?? before;
  });
  state.wake();
  return showOrder(state, row);
}

/** Throws order_not_cancellable if `by` may no longer cancel the order. */
export function assertCancellable(row: OrderRow, by: keyof typeof CANCELLATION_LIMITS): void {
  const limit = CANCELLATION_LIMITS[by];
  if (row.status !== "cancelled" && STATUSES.indexOf(row.status) <= STATUSES.indexOf(limit)) return;
  const message =
    row.status === "cancelled" ? "The order is already cancelled." : `The order is past ${limit}.`;
  throw refused(422, "order_not_cancellable", message);
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
export async function updateOrder(state: SandboxState, request: ApiRequest): Promise<Body> {
  const name = nameOrder(request);
  const update = readUpdate(request.body);
  const row = await state.write(async (connection) => {
    const before = await findForChange(connection, name);
    if (before.status !== "created" && before.status !== "arrived_for_pickup") {
      throw refused(422, "order_not_changeable", `The order is ${before.status}.`);
    }
    const patch = await planPatch(state, before, update);
    return Object.keys(patch).length === 0 ? before : patchOrder(state, connection, before, patch);
  });
  return showOrder(state, row);
}

async function planPatch(
  state: SandboxState,
  before: OrderRow,
  { branch, zoneCode, customer, schedule }: UpdateBody,
): Promise<OrderPatch> {
  const { firstName = before.firstName, phone = before.phone } = customer ?? {};
  const who = customer === undefined ? {} : { firstName, phone };
  const { latitude, longitude, street, city, postcode } = before;
  const given = customer?.address;
  const address = {
    street: given?.street ?? street,
    city: given?.city ?? city,
    postcode: given?.postcode ?? postcode,
  };
  const place = given?.coordinates;
  // The same place in other words, and the order's own branch, zone and mode, change nothing and move no time.
  const staysThere =
    searchKey(address) === searchKey(before) &&
    (place === undefined || (place.latitude === latitude && place.longitude === longitude));
  const ofBranch =
    branch === undefined ? undefined : state.directory.findBranch(before.organizationId, branch);
  const staysAtBranch = branch === undefined || ofBranch?.branchId === before.branchId;
  // Another branch has other zones; the old zone is kept only for the old branch.
  const zone = zoneCode ?? (staysAtBranch ? before.zoneCode : undefined);
  const { mode } = schedule ?? { mode: before.scheduleMode };
  const staysOnTime = zone === before.zoneCode && mode === before.scheduleMode;
  if (staysThere && staysAtBranch && staysOnTime) return who;
  const route = await routeOrder(state, before.organizationId, {
    branch: branch ?? before.branchId,
    zoneCode: zone,
    schedule: { mode },
    // Another address has other coordinates, unless the caller gives them.
    customer: { address: { ...address, coordinates: staysThere ? { latitude, longitude } : place } },
  });
  return { ...who, ...route };
}

function nameOrder({ caller, reference }: ApiRequest): OrderName {
  // The database's text cannot hold NUL, so no order has such a name.
  if (reference.includes("\0")) throw refuseOrder();
  return { organizationId: caller.organization.organizationId, livemode: caller.livemode, name: reference };
}

const BRANCHES_PER_PAGE = 2;

/** GET /v1/orders. */
export async function listOrders(state: SandboxState, request: ApiRequest): Promise<Body> {
  const { organization, livemode } = request.caller;
  const { organizationId } = organization;
  const { branch, ...asked } = readListParameters(request.query, state.decisions.largeLimit === "capped");
  const found = branch === undefined ? undefined : state.directory.findBranch(organizationId, branch);
  if (branch !== undefined && !found) throw refuseBranch();
  const filter = { ...asked, organizationId, livemode, branchId: found?.branchId };
  const faults = state.faults.current();
  const limit = Math.min(filter.limit, faults.listLimitMax);
  // Reads one row more than requested to see whether there are more.
  const rows = await readOrders(state.pool, { ...filter, limit: limit + 1 }, faults);
  const data = rows.slice(0, limit).map((row) => showOrder(state, row));
  return { data, hasMore: rows.length > limit, limit, offset: filter.offset };
}

/** GET /v1/branches. Assumed: all branches in one answer, without paging. */
export function listBranches(state: SandboxState, request: ApiRequest): Promise<Body> {
  const { directory } = state;
  const open = directory
    .branchesOf(request.caller.organization.organizationId)
    .filter((branch) => !branch.closed);
  const data = open.map((branch) => {
    const connected = branch.connections.map(({ zoneCode, isPrimary }) => {
      const zone = directory.zoneByCode(zoneCode);
      return { code: zone.code, name: zone.name, isPrimary, fleetName: zone.fleetName };
    });
    const primary = connected.find((zone) => zone.isPrimary);
    return {
      id: branch.branchId,
      reference: branch.reference,
      name: branch.name,
      address: branch.address,
      routesTo: primary
        ? { fleet: { name: primary.fleetName }, zone: { code: primary.code, name: primary.name } }
        : null,
      connectedZones: connected.map(({ code, name, isPrimary }) => ({ code, name, isPrimary })),
    };
  });
  if (state.decisions.branchPages === "one") return Promise.resolve({ data, hasMore: false });
  const offset = Number(request.query.get("offset") ?? 0) || 0;
  const page = data.slice(offset, offset + BRANCHES_PER_PAGE);
  return Promise.resolve({ data: page, hasMore: offset + page.length < data.length });
}
