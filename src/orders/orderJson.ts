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
  // Added one by one: V8 then copies them once, when the page is complete, and a page is garbage in its largest heap.
  let texts = "";
  for (const { raw } of orders) texts += texts === "" ? raw : `,${raw}`;
  const revisions = page.revisions ? `,"revisions":${listRevisions(orders)}` : "";
  return `{"data":[${texts}],"hasMore":${hasMore},"limit":${limit},"offset":${offset}${revisions}}`;
}

function listRevisions(orders: readonly ListedOrder[]): string {
  return JSON.stringify(
    orders.map(({ revision, changedAt }) => ({ revision, changedAt: formatInstant(changedAt) })),
  );
}
