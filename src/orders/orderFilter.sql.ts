import { ceilTo, formatInstant, type Instant } from "../domain/order/instant.ts";

/**
 * Selects orders of a source. Conditions are combined with AND; `Since` and `From` are inclusive, `Until` is exclusive.
 */
export interface OrderFilter {
  readonly sourceId: string;
  readonly updatedSince?: Instant | undefined;
  readonly updatedUntil?: Instant | undefined;
  readonly pickupFrom?: Instant | undefined;
  readonly pickupUntil?: Instant | undefined;
  readonly deliveryFrom?: Instant | undefined;
  readonly deliveryUntil?: Instant | undefined;
  readonly status?: string | undefined;
  readonly branchId?: string | undefined;
  /** Orders that name their branch by this reference, and without an id; with branchId both. */
  readonly branchReference?: string | undefined;
  readonly fleet?: string | undefined;
}

const NANOS_PER_MICRO = 1_000n;

/** Adds a value to the statement and returns its placeholder. */
export type Bind = (value: unknown) => string;

/**
 * Writes the conditions of a filter, for mirror.orders without those that are gone, and for reporting.orders.
 *
 * updatedAt is compared to the nanosecond; other times are stored, and therefore compared, to the microsecond.
 */
export function writeOrderFilter(filter: OrderFilter, bind: Bind): string[] {
  return [`source_id = ${bind(filter.sourceId)}`, ...writeFieldFilter(filter, bind)];
}

/** Writes the conditions of a filter without the source, for statements that read several sources. */
export function writeFieldFilter(filter: Omit<OrderFilter, "sourceId">, bind: Bind): string[] {
  const compare = (comparisons: readonly [string, string | undefined][]) =>
    comparisons.flatMap(([comparison, value]) =>
      value === undefined ? [] : [`${comparison} ${bind(value)}`],
    );
  const branch = compare([
    ["branch_id =", filter.branchId],
    ["branch_id is null and branch_reference =", filter.branchReference],
  ]);
  return [
    ...compare([
      ["version >=", filter.updatedSince?.toString()],
      ["version <", filter.updatedUntil?.toString()],
      ["pickup_time >=", toTimestamp(filter.pickupFrom)],
      ["pickup_time <", toTimestamp(filter.pickupUntil)],
      ["delivery_time >=", toTimestamp(filter.deliveryFrom)],
      ["delivery_time <", toTimestamp(filter.deliveryUntil)],
      ["status =", filter.status],
      ["fleet_name =", filter.fleet],
    ]),
    ...(branch.length > 1 ? [`(${branch.join(" or ")})`] : branch),
  ];
}

/**
 * Rounds up to the first microsecond that is not before `instant`: stored times have none in between, and Postgres
 * rounds.
 */
export function toTimestamp(instant: Instant): string;
export function toTimestamp(instant: Instant | undefined): string | undefined;
export function toTimestamp(instant: Instant | undefined): string | undefined {
  return instant === undefined ? undefined : formatInstant(ceilTo(instant, NANOS_PER_MICRO), 6);
}
