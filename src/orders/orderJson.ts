/** A page of a list, without `request_id`. Each of `orders` is the JSON text of one order, unchanged. */
export function writePage(page: {
  orders: readonly string[];
  hasMore: boolean;
  limit: number;
  offset: number;
}): string {
  const { orders, hasMore, limit, offset } = page;
  return `{"data":[${orders.join(",")}],"hasMore":${hasMore},"limit":${limit},"offset":${offset}}`;
}
