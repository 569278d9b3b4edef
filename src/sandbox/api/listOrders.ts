import { tryParseInstant } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { ASSUMED_CODES } from "../../wire/api.ts";
import type { ApiAnswer, ApiRequest } from "./apiRequest.ts";
import { makeInvalidRequest, SandboxRefusalError } from "./errors.ts";
import { readOrders } from "./list.sql.ts";
import type { SandboxOrderFilter } from "./list.sql.ts";
import { showOrder, STATUSES } from "./orderRow.ts";
import type { Status } from "./orderRow.ts";
import type { SandboxState } from "../world/sandboxState.ts";

const LIMIT_DEFAULT = 50;
const LIMIT_MAX = 200;
/** Assumed: the spec shows no maximum offset. */
const OFFSET_MAX = 10_000_000;
const DIGITS = /^\d{1,9}$/;

/** GET /v1/orders. */
export async function listOrders(state: SandboxState, request: ApiRequest): Promise<ApiAnswer> {
  const filter = readFilter(state, request);
  const faults = state.faults.current();
  const limit = Math.min(filter.limit, faults.listLimitMax);
  // Reads one row more than requested to see whether there are more.
  const rows = await readOrders(state.pool, { ...filter, limit: limit + 1 }, faults);
  const { directory, utcOffsetMinutes } = state;
  const data = rows.slice(0, limit).map((row) => showOrder(row, { directory, faults, utcOffsetMinutes }));
  return { status: 200, body: { data, hasMore: rows.length > limit, limit, offset: filter.offset } };
}

/** GET /v1/branches. Assumed: all branches in one answer, without paging. */
export async function listBranches(state: SandboxState, request: ApiRequest): Promise<ApiAnswer> {
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
      address: {
        street: branch.address.street,
        city: branch.address.city,
        postcode: branch.address.postcode,
      },
      routesTo: primary
        ? { fleet: { name: primary.fleetName }, zone: { code: primary.code, name: primary.name } }
        : null,
      connectedZones: connected.map(({ code, name, isPrimary }) => ({ code, name, isPrimary })),
    };
  });
  return Promise.resolve({ status: 200, body: { data, hasMore: false } });
}

/** Reads the query. Assumed: unknown parameters are ignored; invalid or repeated ones are refused. */
function readFilter(state: SandboxState, { caller, query }: ApiRequest): SandboxOrderFilter {
  const updatedSince = readTime(query, "updatedSince");
  const updatedUntil = readTime(query, "updatedUntil");
  if ((updatedSince === undefined) !== (updatedUntil === undefined)) {
    // Assumed: the code; the spec only shows the status.
    throw new SandboxRefusalError(
      422,
      ASSUMED_CODES.updatedPeriodIncomplete,
      "updatedSince and updatedUntil must be sent together.",
    );
  }
  const { organizationId } = caller.organization;
  return {
    organizationId,
    livemode: caller.livemode,
    updatedSince,
    updatedUntil,
    pickupFrom: readTime(query, "pickupFrom"),
    pickupUntil: readTime(query, "pickupUntil"),
    deliveryFrom: readTime(query, "deliveryFrom"),
    deliveryUntil: readTime(query, "deliveryUntil"),
    status: readStatus(query),
    branchId: readBranchId(state, organizationId, query),
    sort: readSort(query),
    limit: readCount(query, "limit", { fallback: LIMIT_DEFAULT, min: 1, max: LIMIT_MAX }),
    offset: readCount(query, "offset", { fallback: 0, min: 0, max: OFFSET_MAX }),
  };
}

function readOne(query: URLSearchParams, name: string): string | undefined {
  const values = query.getAll(name);
  if (values.length > 1) throw makeInvalidRequest(`${name} must be sent once.`);
  return values[0];
}

function readTime(query: URLSearchParams, name: string): Instant | undefined {
  const text = readOne(query, name);
  if (text === undefined) return undefined;
  const instant = tryParseInstant(text);
  if (instant !== undefined) return instant;
  const hint = text.includes(" ") ? " A + in a query must be written %2B." : "";
  throw makeInvalidRequest(`${name} must be an ISO 8601 date-time with an offset.${hint}`);
}

function readStatus(query: URLSearchParams): Status | undefined {
  const text = readOne(query, "status");
  if (text === undefined) return undefined;
  const status = STATUSES.find((each) => each === text);
  // Assumed: an unknown status is refused.
  if (!status) throw makeInvalidRequest(`status must be one of ${STATUSES.join(", ")}.`);
  return status;
}

function readBranchId(
  state: SandboxState,
  organizationId: string,
  query: URLSearchParams,
): string | undefined {
  const text = readOne(query, "branch");
  if (text === undefined) return undefined;
  const branch = state.directory.findBranch(organizationId, text);
  // Assumed: the status and the code; the spec only says that it is an error.
  if (!branch)
    throw new SandboxRefusalError(422, ASSUMED_CODES.branchNotFound, "No branch has this reference or id.");
  return branch.branchId;
}

function readSort(query: URLSearchParams): SandboxOrderFilter["sort"] {
  const text = readOne(query, "sort") ?? "updatedAt";
  if (text === "updatedAt" || text === "pickupTime") return text;
  throw makeInvalidRequest("sort must be updatedAt or pickupTime.");
}

/** Assumed: a number outside the range is refused, not cut. */
function readCount(
  query: URLSearchParams,
  name: string,
  range: { fallback: number; min: number; max: number },
): number {
  const text = readOne(query, name);
  if (text === undefined) return range.fallback;
  const count = DIGITS.test(text) ? Number(text) : Number.NaN;
  if (count >= range.min && count <= range.max) return count;
  throw makeInvalidRequest(`${name} must be a whole number from ${range.min} to ${range.max}.`);
}
