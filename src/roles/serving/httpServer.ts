import type { RequestListener, Server } from "node:http";
import { UnavailableError } from "../../domain/errors.ts";
import type { Config } from "../../runtime/config/config.ts";
import { makeHttpServer } from "../../runtime/http/httpServer.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";

const CLOSE_DEADLINE_MS = 3_000;

export interface ListeningServer {
  readonly server: Server;
  /** `http://host:port` that a program on this machine can use. */
  readonly url: string;
  /** Stops accepting, lets running requests end, and cuts what is left after 3 s. */
  readonly close: () => Promise<void>;
}

/** Listens on HOST and `port` (0 for a free one). Throws UnavailableError when the port is taken or not allowed. */
export async function listen(
  listener: RequestListener,
  options: {
    config: Pick<Config, "host" | "connectionsMax" | "connectionsPerAddressMax">;
    port: number;
    /** Variable that sets the port, for the fix. */
    portVariable: string;
    clock: Clock;
    logger: Logger;
  },
): Promise<ListeningServer> {
  const { config, port, portVariable, clock, logger } = options;
  const { host, connectionsMax, connectionsPerAddressMax } = config;
  const limits = { connectionsMax, connectionsPerAddressMax };
  const server = makeHttpServer(listener, { limits, clock, logger });
  await new Promise<void>((resolve, reject) => {
    const refuse = (error: NodeJS.ErrnoException) => reject(explain(error, { host, port, portVariable }));
    server.once("error", refuse);
    server.listen({ host, port }, () => {
      server.off("error", refuse);
      resolve();
    });
  });
  const address = server.address();
  const boundPort = address !== null && typeof address === "object" ? address.port : port;
  return { server, url: localUrl(host, boundPort), close: () => close(server) };
}

/** Where a program on this machine reaches what listens on `host`. */
export function localUrl(host: string, port: number): string {
  const name = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  return `http://${name.includes(":") ? `[${name}]` : name}:${port}`;
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    const cut = setTimeout(() => server.closeAllConnections(), CLOSE_DEADLINE_MS);
    server.close(() => {
      clearTimeout(cut);
      resolve();
    });
    server.closeIdleConnections();
  });
}

function explain(
  error: NodeJS.ErrnoException,
  { host, port, portVariable }: { host: string; port: number; portVariable: string },
): Error {
  const fix = `Stop the program that uses it, or set ${portVariable} to another port.`;
  if (error.code === "EADDRINUSE")
    return new UnavailableError(`Port ${port} on ${host} is taken.`, { cause: error, fix });
  if (error.code === "EACCES") {
    return new UnavailableError(`Port ${port} on ${host} may not be used by this account.`, {
      cause: error,
      fix,
    });
  }
  if (error.code === "EADDRNOTAVAIL" || error.code === "ENOTFOUND") {
    return new UnavailableError(`${host} is no address of this machine.`, {
      cause: error,
      fix: "Correct HOST.",
    });
  }
  return error;
}
