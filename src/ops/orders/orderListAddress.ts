import { NANOS_PER_SECOND, tryParseInstant, type Instant } from "../../domain/order/instant.ts";
import type { OrderFilter } from "../../orders/orderFilter.sql.ts";
import { ORDER_MARKS, SORTS, type ListPosition } from "../../orders/orderList.sql.ts";
import { parseChoice, parsePosition, writeChoice, type Names } from "../lists/choice.ts";

/** Times that a period may be of, with its ends as filters. */
export const PERIODS = {
  updated: { title: "Last update", since: "updatedSince", until: "updatedUntil" },
  pickup: { title: "Planned pickup", since: "pickupFrom", until: "pickupUntil" },
  delivery: { title: "Planned delivery", since: "deliveryFrom", until: "deliveryUntil" },
} as const;
/** Periods that end now. */
export const WITHIN = {
  "1h": { title: "1 hour", hours: 1 },
  "24h": { title: "24 hours", hours: 24 },
  "7d": { title: "7 days", hours: 168 },
  "30d": { title: "30 days", hours: 720 },
} as const;

/** The names in the address of the list of orders. */
const NAMES = {
  q: null,
  source: null,
  branch: null,
  fleet: null,
  status: null,
  within: ["", ...Object.keys(WITHIN)],
  from: null,
  until: null,
  of: Object.keys(PERIODS),
  sort: Object.keys(SORTS),
  dir: ["", "up"],
  is: ["", ...ORDER_MARKS],
} as const satisfies Names;

/** Choice that the address makes. A value that means nothing is as if it were absent. */
export interface OrderListQuery extends Readonly<Record<keyof typeof NAMES, string>> {
  readonly after: ListPosition | null;
}

export function parseOrderList(address: Readonly<Record<string, unknown>>): OrderListQuery {
  const query = parseChoice(NAMES, address);
  return {
    ...query,
    // A period that ends now has no other ends.
    ...(query.within !== "" && { from: "", until: "" }),
    after: readPosition(parsePosition(address)),
  };
}

/** The query as an address; what is as by default is left out. `after` is left out unless it is given in `changes`. */
export function writeOrderList(query: OrderListQuery, changes: Partial<OrderListQuery> = {}): string {
  const { after, ...words } = { ...query, after: null, ...changes };
  return writeChoice(NAMES, words, after === null ? [] : [String(after.at), after.sourceId, after.reference]);
}

/** The filter on fields of orders; `now` ends a relative period. */
export function toFieldFilter(query: OrderListQuery, now: Instant): Omit<OrderFilter, "sourceId"> {
  const { branch, fleet, status, of, within } = query;
  const length = within in WITHIN ? hours(WITHIN[within as keyof typeof WITHIN].hours) : undefined;
  const from = length === undefined ? readMinute(query.from) : now - length;
  // Planned times lie in the future, too: "within 24 h" is then on either side of now.
  const ahead = length === undefined || of === "updated" ? undefined : now + length;
  const period = PERIODS[of as keyof typeof PERIODS];
  return {
    [period.since]: from,
    [period.until]: ahead ?? readMinute(query.until),
    status: status || undefined,
    branchId: branch || undefined,
    fleet: fleet || undefined,
  };
}

const hours = (count: number) => BigInt(count) * 3_600n * NANOS_PER_SECOND;

/** `2026-11-22T14:32`, as a browser's field of date and time has it, in UTC. */
function readMinute(text: string): Instant | undefined {
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d$/.test(text) ? tryParseInstant(`${text}:00Z`) : undefined;
}

/** A bigint of Postgres. */
const NANOS = /^(?:-?\d{1,18}|-?[1-8]\d{18})$/;

function readPosition(given: readonly string[] | null): ListPosition | null {
  const [at = "", sourceId = "", reference = ""] = given ?? [];
  return NANOS.test(at) ? { at: BigInt(at), sourceId, reference } : null;
}
