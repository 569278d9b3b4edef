import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

/**
 * Below the ports that systems give to outgoing connections, which would take a free port before its server listens.
 */
const PORTS = { first: 10_000, end: 32_768 };

/**
 * A TCP port on 127.0.0.1 that was free a moment ago; another program that asks for this very port may still take it.
 */
export async function findFreePort(): Promise<number> {
  for (;;) {
    const port = randomInt(PORTS.first, PORTS.end);
    if (await isFree("127.0.0.1", port)) return port;
  }
}

/** `wanted`, or a free port if that is 0, one of `besides` or taken; other problems show when it is used. */
export async function chooseFreePort(
  host: string,
  wanted: number,
  besides: readonly (number | null)[] = [],
): Promise<number> {
  return wanted === 0 || besides.includes(wanted) || !(await isFree(host, wanted)) ? findFreePort() : wanted;
}

async function isFree(host: string, port: number): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen(port, host), "listening");
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "EADDRINUSE";
  } finally {
    if (server.listening) await once(server.close(), "close");
  }
}
