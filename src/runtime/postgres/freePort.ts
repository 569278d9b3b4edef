import { createServer } from "node:net";

/** A TCP port on 127.0.0.1 that was free a moment ago. Another process may take it before the caller does. */
export async function findFreePort(): Promise<number> {
  return listenBriefly("127.0.0.1", 0);
}

/** `wanted`, or a free port if it is one of `besides` or taken; other problems show when it is used. */
export async function chooseFreePort(
  host: string,
  wanted: number,
  besides: readonly (number | null)[] = [],
): Promise<number> {
  if (besides.includes(wanted)) return findFreePort();
  try {
    return await listenBriefly(host, wanted);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EADDRINUSE" ? findFreePort() : wanted;
  }
}

async function listenBriefly(host: string, port: number): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  const address = server.address();
  await new Promise<void>((resolve) => server.close(() => resolve()));
  if (address === null || typeof address === "string") throw new TypeError("a TCP server has a numeric port");
  return address.port;
}
