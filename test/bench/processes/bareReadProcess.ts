import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { makePool } from "../../../src/database/database.ts";
import { selectOrder, selectOrders } from "../../../src/orders/orderReads.sql.ts";
import { parseOrderQuery } from "../../../src/orders/orderQuery.ts";

/**
 * The minimum cost of reading: the product's statements in a bare handler without tokens, headers or errors. Sends its
 * address first.
 */
const pool = makePool({
  url: String(process.env["DATABASE_URL"]),
  purpose: "bare",
  max: 8,
  statementTimeoutMs: 10_000,
});

async function answer(url: string): Promise<string> {
  const [path = "", query = ""] = url.split("?");
  const reference = path.slice("/v1/orders/".length);
  if (reference !== "") return (await selectOrder(pool, { sourceId: "live", reference })).raw ?? "";
  const { branch: _branch, ...asked } = parseOrderQuery(new URLSearchParams(query));
  const orders = await selectOrders(pool, { sourceId: "live", ...asked });
  return `{"data":[${orders.map(({ raw }) => raw).join(",")}]}`;
}

const server = createServer((request, response) => {
  answer(request.url ?? "").then(
    (text) => response.writeHead(200, { "content-type": "application/json" }).end(text),
    () => response.writeHead(500).end(),
  );
});
server.listen(0, "127.0.0.1", () => {
  process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
