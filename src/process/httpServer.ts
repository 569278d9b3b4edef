import { createServer, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Server as NetServer, Socket } from "node:net";
import { UnavailableError } from "../domain/errors.ts";
import type { Clock } from "./clock.ts";
import { makeLogSampler } from "./telemetry/logSampler.ts";
import type { Logger } from "./telemetry/logger.ts";

// A server with plain limits: Node's own time-outs, a limit on connections, one request at a time on each of them, and
// none whose answer nobody reads. It keeps a flood from filling the memory or blocking the process for good; that
// genuine requests stay fast beside one is the work of the proxy in front (docs/production.md). Start at `listen`.

/** Limits of one server for its clients. Times are in milliseconds. */
export interface ServerLimits {
  readonly connectionsMax: number;
  /** Time for a complete head, and for a complete request; then 408. */
  readonly headersTimeout: number;
  readonly requestTimeout: number;
  /** Interval at which those two are checked. */
  readonly connectionsCheckingInterval: number;
  readonly keepAliveTimeout: number;
  /** A client that reads no byte of its answer for this long is disconnected. */
  readonly answerTimeout: number;
}

const HEADER_BYTES_MAX = 16_384;
const LOG_INTERVAL_MS = 10_000;
const CLOSE_DEADLINE_MS = 3_000;

/**
 * Node's own limits (60 s, 300 s, checked every 30 s, and none on connections and on answers that nobody reads) allow a
 * few hundred sockets to block a process.
 * @internal
 */
export const SERVER_LIMITS: ServerLimits = {
  connectionsMax: 4_096,
  headersTimeout: 5_000,
  requestTimeout: 10_000,
  connectionsCheckingInterval: 1_000,
  // Longer than load balancers keep idle connections (60 s), so that they close them, not this server: a
  // request that crosses our close is lost.
  keepAliveTimeout: 65_000,
  answerTimeout: 30_000,
};

/**
 * A connection that sends a request before it has the whole answer to another one is closed: senders, browsers and load
 * balancers do not, and one packet could cause the work of hundreds. At the limit of connections a new one is closed.
 *
 * @internal
 */
export function makeHttpServer(
  listener: RequestListener,
  deps: { readonly limits?: Partial<ServerLimits>; readonly clock: Clock; readonly logger: Logger },
): Server {
  const { connectionsMax, answerTimeout, ...nodeLimits } = { ...SERVER_LIMITS, ...deps.limits };
  const logClosed = makeCloseLog(deps);
  /** The latest of each connection. */
  const answers = new WeakMap<Socket, ServerResponse>();
  const isAnswering = (socket: Socket) => answers.get(socket)?.writableFinished === false;

  function drop(socket: Socket, reason: string): void {
    // A reset, because the kernel would keep unread answers for this client after a close.
    socket.resetAndDestroy();
    logClosed(reason);
  }

  const server = createServer({ ...nodeLimits, maxHeaderSize: HEADER_BYTES_MAX }, (request, response) => {
    const { socket } = request;
    if (socket.destroyed) return;
    if (isAnswering(socket)) return drop(socket, "pipelined_request");
    answers.set(socket, response);
    listener(request, response);
  });
  server.maxConnections = connectionsMax;
  server.on("drop", () => logClosed("too_many_connections"));
  server.setTimeout(answerTimeout, (socket: Socket) => {
    // While an answer is still being prepared, there is nothing to read.
    if (!isAnswering(socket)) socket.destroy();
    else if (socket.writableLength > 0) drop(socket, "answer_not_taken");
  });
  return server;
}

/** At most one line per reason in 10 s: a flood must not fill the log. */
function makeCloseLog({ clock, logger }: { clock: Clock; logger: Logger }): (reason: string) => void {
  const sample = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });
  return (reason) => {
    const suppressed = sample(reason);
    if (suppressed !== undefined) logger.warn({ reason, suppressed }, "a connection was closed");
  };
}

export interface ListeningServer {
  /** `http://host:port` that a program on this machine can use. */
  readonly url: string;
  /** Stops accepting, lets running requests end, and cuts the rest after 3 s. */
  readonly close: () => Promise<void>;
}

interface Place {
  readonly host: string;
  /** 0: a free one. */
  readonly port: number;
  /** Variable that sets the port, for the fix. */
  readonly portVariable: string;
}

/** Serves at `place`. Throws UnavailableError if the port is taken or not allowed. */
export async function listen(
  listener: RequestListener,
  { clock, logger, ...place }: Place & { clock: Clock; logger: Logger },
): Promise<ListeningServer> {
  const server = makeHttpServer(listener, { clock, logger });
  const bound = await listenOn(server, place);
  return { url: localUrl(place.host, bound), close: () => close(server) };
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

/** Returns the port. Throws UnavailableError if port or host cannot be used. */
export async function listenOn(server: NetServer, place: Place): Promise<number> {
  const { host, port } = place;
  await new Promise<void>((resolve, reject) => {
    const refuse = (error: NodeJS.ErrnoException) => reject(explain(error, place));
    server.once("error", refuse);
    server.listen({ host, port }, () => {
      server.off("error", refuse);
      resolve();
    });
  });
  return (server.address() as AddressInfo).port;
}

/** The address at which a program on this machine reaches a server that listens on `host`. */
export function localUrl(host: string, port: number): string {
  const name = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  return `http://${name.includes(":") ? `[${name}]` : name}:${port}`;
}

function explain(error: NodeJS.ErrnoException, { host, port, portVariable }: Place): Error {
  if (error.code === "EADDRINUSE") {
    const fix = `Stop the program that uses it, or set ${portVariable} to another port.`;
    return new UnavailableError(`Port ${port} on ${host} is taken.`, { cause: error, fix });
  }
  if (error.code === "EACCES") {
    const message = `This account may not use port ${port} on ${host}.`;
    return new UnavailableError(message, { cause: error, fix: `Set ${portVariable} to another port.` });
  }
  if (["EADDRNOTAVAIL", "ENOTFOUND", "EAI_AGAIN"].includes(error.code ?? "")) {
    const message = `${host} is not an address of this machine.`;
    return new UnavailableError(message, { cause: error, fix: "Correct HOST." });
  }
  return error;
}
