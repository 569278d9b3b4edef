import type { z } from "zod";
import type { listParametersSchema } from "../../wire/listParameters.ts";
import type { Connection } from "../world/database.ts";
import type { Faults } from "../control/faults.ts";
import type { OrderRow, Status } from "./orderRow.ts";
import { ORDER_FIELDS } from "./order.sql.ts";

type ListParameters = z.output<typeof listParametersSchema>;

/** The parameters of GET /v1/orders; undefined means no restriction. */
export interface SandboxOrderFilter extends Omit<ListParameters, "status" | "branch"> {
  readonly organizationId: string;
  readonly livemode: boolean;
  readonly status: Status | undefined;
  readonly branchId: string | undefined;
}

type ListFaults = Pick<Faults, "listOrder" | "listTies" | "listBounds">;

const SORT_COLUMNS = { updatedAt: "updated_at", pickupTime: "pickup_time" } as const;

/** Half-open is the spec's rule; the others are mistakes that a provider might make. */
const BOUNDS = {
  "half-open": { from: ">=", until: "<" },
  inclusive: { from: ">=", until: "<=" },
  exclusive: { from: ">", until: "<" },
} as const;

/** One page of orders, sorted as the faults say. */
export async function readOrders(
  connection: Connection,
  filter: SandboxOrderFilter,
  faults: ListFaults,
): Promise<OrderRow[]> {
  const values: unknown[] = [filter.organizationId, filter.livemode];
  const conditions = ["organization_id = $1", "livemode = $2"];
  const restrict = (column: string, operator: string, value: unknown) => {
    if (value === undefined) return;
    values.push(value);
    conditions.push(`${column} ${operator} $${values.length}`);
  };
  const { from, until } = BOUNDS[faults.listBounds];
  restrict("updated_at", from, filter.updatedSince);
  restrict("updated_at", until, filter.updatedUntil);
  restrict("pickup_time", from, filter.pickupFrom);
  restrict("pickup_time", until, filter.pickupUntil);
  restrict("delivery_time", from, filter.deliveryFrom);
  restrict("delivery_time", until, filter.deliveryUntil);
  restrict("status", "=", filter.status);
  restrict("branch_id", "=", filter.branchId);
  values.push(filter.limit, filter.offset ?? 0);
  const { rows } = await connection.query<OrderRow>(
    `select ${ORDER_FIELDS} from sandbox.orders
     where ${conditions.join(" and ")}
     order by ${writeOrder(SORT_COLUMNS[filter.sort ?? "updatedAt"], faults)}
     limit $${values.length - 1} offset $${values.length}`,
    values,
  );
  return rows;
}

/** Assumed: ascending; the spec shows neither the direction nor the order of equal timestamps. */
function writeOrder(column: string, faults: ListFaults): string {
  if (faults.listOrder === "unsorted") return "hashint8(number), number";
  const direction = faults.listOrder === "ascending" ? "asc" : "desc";
  return faults.listTies === "random"
    ? `${column} ${direction}, random()`
    : `${column} ${direction}, number ${direction}`;
}
