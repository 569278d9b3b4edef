/**
 * The page of a list, `request_id` not yet in it. Each of `orders` is the JSON text of one order, which passes through as
 * the provider wrote it.
 */
export function writePage(page: {
  orders: readonly string[];
  hasMore: boolean;
  limit: number;
  offset: number;
}): string {
  const { orders, hasMore, limit, offset } = page;
  return `{"data":[${orders.join(",")}],"hasMore":${hasMore},"limit":${limit},"offset":${offset}}`;
}
