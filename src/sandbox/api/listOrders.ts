import type { ApiAnswer, ApiRequest } from "./apiRequest.ts";
import { readOrders } from "./list.sql.ts";
import type { SandboxOrderFilter } from "./list.sql.ts";
import { showOrder } from "./orderRow.ts";
import type { Status } from "./orderRow.ts";
import {
  assertWholePeriod,
  LIMIT_MAX,
  listParametersSchema,
  ORDER_STATUSES,
  parseParameters,
  refuseStatus,
} from "../../wire/listParameters.ts";
import { refuseBranch } from "../../wire/refusal.ts";
import type { SandboxState } from "../world/sandboxState.ts";

const BRANCHES_PER_PAGE = 2;

/** GET /v1/orders. */
export async function listOrders(state: SandboxState, request: ApiRequest): Promise<ApiAnswer> {
  const filter = readFilter(state, request);
  const faults = state.faults.current();
  const limit = Math.min(filter.limit, faults.listLimitMax);
  // Reads one row more than requested to see whether there are more.
  const rows = await readOrders(state.pool, { ...filter, limit: limit + 1 }, faults);
  const data = rows.slice(0, limit).map((row) => showOrder(state, row));
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
  if (state.decisions.branchPages === "one")
    return Promise.resolve({ status: 200, body: { data, hasMore: false } });
  const offset = Number(request.query.get("offset") ?? 0) || 0;
  const page = data.slice(offset, offset + BRANCHES_PER_PAGE);
  return Promise.resolve({ status: 200, body: { data: page, hasMore: offset + page.length < data.length } });
}

function readFilter(state: SandboxState, { caller, query }: ApiRequest): SandboxOrderFilter {
  const {
    status,
    branch,
    offset = 0,
    ...asked
  } = parseParameters(
    listParametersSchema,
    state.decisions.largeLimit === "capped" ? capLimit(query) : query,
  );
  assertWholePeriod(asked);
  const { organizationId } = caller.organization;
  return {
    ...asked,
    organizationId,
    livemode: caller.livemode,
    status: status === undefined ? undefined : readStatus(status),
    branchId: branch === undefined ? undefined : findBranchId(state, organizationId, branch),
    offset,
  };
}

function capLimit(query: URLSearchParams): URLSearchParams {
  const capped = new URLSearchParams(query);
  if (/^\d+$/.test(query.get("limit") ?? "") && Number(query.get("limit")) > LIMIT_MAX)
    capped.set("limit", String(LIMIT_MAX));
  return capped;
}

function readStatus(text: string): Status {
  const status = ORDER_STATUSES.find((each) => each === text);
  if (!status) throw refuseStatus();
  return status;
}

function findBranchId({ directory }: SandboxState, organizationId: string, name: string): string {
  const branch = directory.findBranch(organizationId, name);
  if (!branch) throw refuseBranch();
  return branch.branchId;
}
