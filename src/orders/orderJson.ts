import { formatInstant } from "../domain/order/instant.ts";
import type { ListedOrder } from "./orderReads.sql.ts";

/**
 * A page of a list, without `request_id`. Each of `orders` is the unchanged JSON text of one order; `revisions` adds a
 * list with the revision of each, in the same sequence.
 */
export function writePage(page: {
  orders: readonly ListedOrder[];
  hasMore: boolean;
  limit: number;
  offset: number;
  revisions: boolean;
}): string {
  const { orders, hasMore, limit, offset } = page;
  const texts = orders.map(({ raw }) => raw).join(",");
  const revisions = page.revisions ? `,"revisions":${listRevisions(orders)}` : "";
  return `{"data":[${texts}],"hasMore":${hasMore},"limit":${limit},"offset":${offset}${revisions}}`;
}

function listRevisions(orders: readonly ListedOrder[]): string {
  return JSON.stringify(
    orders.map(({ revision, changedAt }) => ({ revision, changedAt: formatInstant(changedAt) })),
  );
}
