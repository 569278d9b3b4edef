import { createServer } from "node:net";

/** A TCP port on 127.0.0.1 that was free a moment ago. Another process may take it before the caller does. */
export async function findFreePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const address = server.address();
  await new Promise<void>((resolve) => server.close(() => resolve()));
  if (address === null || typeof address === "string") throw new TypeError("a TCP server has a numeric port");
  return address.port;
}
