import type { CreateOrderRequest, WireAddress } from "../../wire/api.ts";
import type { Branch, Zone } from "../world/directory.ts";
import type { Coordinates } from "./geocode.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import { shownTime } from "../world/sandboxState.ts";
import { isCovered, measureDistance } from "../fleet/schedule.ts";
import type { ResolvedTimes } from "../fleet/schedule.ts";
import { ADDRESS_MESSAGES, isSearchable, searchAddress } from "./searchAddress.ts";
import { refused } from "../api/errors.ts";
import { refuseParameter } from "../../wire/refusal.ts";

/** The destination and times of an order; the same for a quote and the order that follows it. */
interface Route {
  readonly branch: Branch;
  readonly zone: Zone;
  readonly address: WireAddress;
  readonly coordinates: Coordinates;
  readonly distanceKm: number;
  readonly times: ResolvedTimes;
}

/** Checks and routes an order; stores only a search's result. Throws RefusedRequestError. */
export async function routeOrder(
  state: SandboxState,
  organizationId: string,
  order: Pick<CreateOrderRequest, "branch" | "zoneCode" | "schedule"> & {
    customer: { address: WireAddress & { coordinates?: Coordinates | undefined } };
  },
  { isQuote = false } = {},
): Promise<Route> {
  // Assumed: asap is the only mode.
  if (order.schedule.mode !== "asap") throw refuseParameter("schedule.mode must be asap.");
  const branch = findOpenBranch(state, organizationId, order.branch);
  const zone = chooseZone(state, branch, order.zoneCode);
  const found = await locate(state, organizationId, order.customer.address);
  return {
    branch,
    zone,
    ...found,
    ...planTrip(state, { branch, zone, coordinates: found.coordinates, isQuote }),
  };
}

export function describeRoute(route: Route) {
  const { branch, zone, address, coordinates, distanceKm, times } = route;
  return {
    branchId: branch.branchId,
    zoneCode: zone.code,
    street: address.street,
    city: address.city,
    postcode: address.postcode,
    latitude: coordinates.latitude,
    longitude: coordinates.longitude,
    distanceKm,
    basis: times.basis,
    pickupTime: times.pickupTime,
    deliveryTime: times.deliveryTime,
  };
}

/** Distance and times of a trip. Throws no_shift_coverage. */
function planTrip(
  state: SandboxState,
  trip: { branch: Branch; zone: Zone; coordinates: Coordinates; isQuote: boolean },
): { distanceKm: number; times: ResolvedTimes } {
  const { branch, zone, coordinates, isQuote } = trip;
  const { utcOffsetMinutes, dials } = state;
  if (branch.coordinates === null) {
    // Assumed: the code; the spec only lists coordinates among an organization's prerequisites.
    throw refused(422, "branch_not_located", "The branch's main address has no coordinates.");
  }
  const distanceKm = measureDistance(branch.coordinates, coordinates);
  const times = state.promises.resolve(
    {
      seed: dials.seed,
      branchId: branch.branchId,
      distanceKm,
      now: shownTime(state.clock.now(), state.faults.current()),
      utcOffsetMinutes,
      fleetSpeed: dials.fleetSpeed,
    },
    { quoted: isQuote },
  );
  const { pickupTime, deliveryTime } = times;
  // Assumed: a courier must work at both times.
  if (![pickupTime, deliveryTime].every((at) => isCovered(zone.shifts, at, utcOffsetMinutes))) {
    // Assumed: 422; the spec does not show the status.
    throw refused(422, "no_shift_coverage", "No courier shift covers the order.");
  }
  return { distanceKm, times };
}

/** The address's corrected form and place. Throws address_*. */
async function locate(
  state: SandboxState,
  organizationId: string,
  given: WireAddress & { coordinates?: Coordinates | undefined },
): Promise<{ address: WireAddress; coordinates: Coordinates }> {
  const { coordinates, ...address } = given;
  // Assumed: `customer.address.coordinates`; the spec only says that the caller's coordinates cost no search.
  if (coordinates && isSearchable(address)) return { address, coordinates };
  const found = await searchAddress(state, organizationId, address);
  // Assumed: 422; the spec does not show the status of the address_* codes.
  if (!found.valid) throw refused(422, found.reason, ADDRESS_MESSAGES[found.reason]);
  return { address: found.normalized, coordinates: found.coordinates };
}

function findOpenBranch(state: SandboxState, organizationId: string, name: string): Branch {
  const branch = state.directory.findBranch(organizationId, name);
  // Assumed: both codes and the status; the spec only says that a closed branch is rejected.
  if (!branch) throw refused(422, "branch_not_found", "No branch has this reference or id.");
  if (branch.closed) throw refused(422, "branch_closed", "The branch is closed.");
  return branch;
}

function chooseZone(state: SandboxState, branch: Branch, zoneCode: string | null | undefined): Zone {
  const primary = branch.connections.find((connection) => connection.isPrimary);
  // Assumed: also with a zoneCode. The spec's prerequisites require a primary connection of the branch.
  if (!primary) {
    throw refused(422, "branch_not_connected", "The branch has no primary connection.");
  }
  const code = zoneCode ?? primary.zoneCode;
  if (!branch.connections.some((connection) => connection.zoneCode === code)) {
    // Assumed: the code and the status; the spec only lists the accepted values.
    throw refused(422, "zone_not_connected", "The branch is not connected to this zone.");
  }
  return state.directory.zoneByCode(code);
}
