import { tryParseBound, type Instant } from "../../domain/order/instant.ts";
import { refuseField, refused } from "./refusal.ts";

/*
 * The parameters of GET /v1/orders, read from the spec anew and not by the code of the mirror's read API: what one of
 * them misreads, the contract suite shows by the other.
 */

const TIMES = [
  "updatedSince",
  "updatedUntil",
  "pickupFrom",
  "pickupUntil",
  "deliveryFrom",
  "deliveryUntil",
] as const;
const SORTS = ["updatedAt", "pickupTime"] as const;
/** Spec, "Limits": list page size and offset. Assumed: the maximum of the offset. */
const LIMIT_MAX = 200;
const LIMIT_DEFAULT = 50;
const OFFSET_MAX = 1_000_000_000;

/** Statuses in life-cycle order. Assumed: `delivered`, and that it is final; the spec's list is incomplete. */
export const STATUSES = [
  "created",
  "arrived_for_pickup",
  "picked_up",
  "arrived_for_delivery",
  "delivered",
  "cancelled",
] as const;
export type Status = (typeof STATUSES)[number];

type ListPeriods = { readonly [Name in (typeof TIMES)[number]]?: Instant | undefined };
export type ListParameters = ReturnType<typeof readListParameters>;

/**
 * Reads the parameters of a list. `capsLimit`: a limit over 200 counts as 200. Assumed: unknown parameters are ignored;
 * a repeated or unreadable one is refused with 422 invalid_request, half an update period with
 * updated_period_incomplete.
 */
export function readListParameters(query: URLSearchParams, capsLimit: boolean) {
  const text = (name: string, rule: string) => {
    const [value, ...others] = query.getAll(name);
    if (others.length > 0) throw refuseField(`${name} must be ${rule}.`);
    return value;
  };
  const oneOf = <Value extends string>(name: string, values: readonly Value[]) => {
    const rule = `one of ${values.join(", ")}`;
    const value = text(name, name === "status" ? "given once" : rule);
    const found = values.find((each) => each === value);
    if (value !== undefined && found === undefined) throw refuseField(`${name} must be ${rule}.`);
    return found;
  };
  const number = (name: string, [min, max]: readonly [number, number], standard: number) => {
    const rule = `a whole number from ${min} to ${max}`;
    const value = text(name, rule);
    if (value === undefined) return standard;
    const read = /^\d+$/.test(value) ? Number(value) : Number.NaN;
    const kept = capsLimit && name === "limit" ? Math.min(read, max) : read;
    if (!(kept >= min && kept <= max)) throw refuseField(`${name} must be ${rule}.`);
    return kept;
  };
  const time = (name: string) => {
    const rule = "an ISO 8601 date-time with offset (write + as %2B in an address)";
    const value = text(name, rule);
    const instant = value === undefined ? undefined : tryParseBound(value);
    if (value !== undefined && instant === undefined) throw refuseField(`${name} must be ${rule}.`);
    return instant;
  };
  const periods = Object.fromEntries(TIMES.map((name) => [name, time(name)])) as ListPeriods;
  const limit = number("limit", [1, LIMIT_MAX], LIMIT_DEFAULT);
  const offset = number("offset", [0, OFFSET_MAX], 0);
  const sort = oneOf("sort", SORTS);
  /** A branch's reference or id. */
  const branch = text("branch", "given once");
  text("status", "given once");
  if ((periods.updatedSince === undefined) !== (periods.updatedUntil === undefined)) {
    const message = "updatedSince and updatedUntil must be sent together.";
    throw refused(422, "updated_period_incomplete", message);
  }
  return { ...periods, status: oneOf("status", STATUSES), branch, sort, limit, offset };
}
