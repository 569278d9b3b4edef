import type { Instant } from "./instant.ts";

interface ColumnValues {
  text: string;
  boolean: boolean;
  timestamptz: Instant;
}

interface OrderColumnSpec {
  /** Its name in mirror.orders and in exports. */
  readonly column: string;
  readonly type: keyof ColumnValues;
  /** Emptied when the personal data of the order is erased. */
  readonly personal?: true;
}

/**
 * The fields of an order that have a separate column, except the reference, in the order of the columns. The type
 * OrderFields, the statement that applies a batch, its rows and the exports are generated from this list.
 */
export const ORDER_COLUMNS = {
  externalOrderId: { column: "external_order_id", type: "text", personal: true },
  status: { column: "status", type: "text" },
  livemode: { column: "livemode", type: "boolean" },
  fleetName: { column: "fleet_name", type: "text" },
  branchId: { column: "branch_id", type: "text" },
  branchReference: { column: "branch_reference", type: "text" },
  scheduleMode: { column: "schedule_mode", type: "text" },
  resolvedPickupTime: { column: "resolved_pickup_time", type: "timestamptz" },
  resolvedDeliveryTime: { column: "resolved_delivery_time", type: "timestamptz" },
  resolvedBasis: { column: "resolved_basis", type: "text" },
  pickupTime: { column: "pickup_time", type: "timestamptz" },
  deliveryTime: { column: "delivery_time", type: "timestamptz" },
  realPickupTime: { column: "real_pickup_time", type: "timestamptz" },
  realDeliveryTime: { column: "real_delivery_time", type: "timestamptz" },
} as const satisfies Readonly<Record<string, OrderColumnSpec>>;

export type OrderField = keyof typeof ORDER_COLUMNS;
export type OrderColumn = (typeof ORDER_COLUMNS)[OrderField]["column"];

/** Each column with its field. */
export const ORDER_COLUMN_LIST: readonly (OrderColumnSpec & {
  readonly field: OrderField;
  readonly column: OrderColumn;
})[] = (Object.keys(ORDER_COLUMNS) as OrderField[]).map((field) => ({ field, ...ORDER_COLUMNS[field] }));

/** The columns to empty when the personal data of an order is erased. */
export const PERSONAL_COLUMNS: readonly string[] = ORDER_COLUMN_LIST.filter(({ personal }) => personal).map(
  ({ column }) => column,
);

/** Fields that the mirror reads from a snapshot; null if absent or unreadable: `Snapshot.raw` keeps the original. */
export type OrderFields = { readonly reference: string; readonly status: string } & {
  readonly [F in OrderField]: ColumnValues[(typeof ORDER_COLUMNS)[F]["type"]] | null;
};

/** Replaces the body of an erased order's event in the inbox. */
export const ERASED_BODY = '{"erased":true}';
