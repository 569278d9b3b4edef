import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** A provider with any number of organizations in which nothing happens: each list is empty. Sends its address first. */
const EMPTY_PAGE = JSON.stringify({ data: [], hasMore: false, limit: 200, offset: 0 });

const server = createServer((_, response) => {
  response.writeHead(200, { "content-type": "application/json" }).end(EMPTY_PAGE);
});
// Longer than any pause between two requests: connections of the poller are reused.
server.keepAliveTimeout = 120_000;
server.listen(0, "127.0.0.1", () => {
  process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
