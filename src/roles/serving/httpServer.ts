import type { RequestListener, Server } from "node:http";
import type { Config } from "../../runtime/config/config.ts";
import { listenOn, localUrl } from "../../runtime/http/listenOn.ts";
import { makeHttpServer } from "../../runtime/http/httpServer.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";

const CLOSE_DEADLINE_MS = 3_000;

export interface ListeningServer {
  readonly server: Server;
  /** `http://host:port` that a program on this machine can use. */
  readonly url: string;
  /** Stops accepting, lets running requests end, and cuts the rest after 3 s. */
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
  const bound = await listenOn(server, { host, port, portVariable });
  return { server, url: localUrl(host, bound), close: () => close(server) };
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
