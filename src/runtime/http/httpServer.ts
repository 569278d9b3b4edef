import { createServer } from "node:http";
import type { RequestListener, Server } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../lifecycle/clock.ts";
import { makeLogSampler } from "../telemetry/logSampler.ts";
import type { Logger } from "../telemetry/logger.ts";
import { trackConnections } from "./connectionsByAddress.ts";
import { oneAtATime } from "./oneAtATime.ts";
import { makePipelinePace } from "./pipelinePace.ts";

/** Limits of one server for its clients. Times are in milliseconds. */
export interface ServerLimits {
  readonly connectionsMax: number;
  readonly connectionsPerAddressMax: number;
  /** Time for a complete head, and for a complete request; then 408. */
  readonly headersTimeout: number;
  readonly requestTimeout: number;
  /** How often those two are checked. */
  readonly connectionsCheckingInterval: number;
  readonly keepAliveTimeout: number;
  /**
   * Used instead for a connection that sends requests without waiting for answers, which no load balancer does. Also how
   * long a connection that sent too many of them is held.
   */
  readonly pipelinedKeepAliveTimeout: number;
  /** A client that reads no byte of its answer for this long is disconnected. */
  readonly answerTimeout: number;
}

/** Requests that may wait behind another on their connection. Senders, browsers and load balancers let none wait. */
const WAITING_MAX = 2;
const HEADER_BYTES_MAX = 16_384;
const LOG_INTERVAL_MS = 10_000;

/**
 * Node's own limits (60 s, 300 s, checked every 30 s, and none on connections and on answers that nobody reads) allow a
 * few hundred sockets to block a process.
 * @internal
 */
export const SERVER_LIMITS: ServerLimits = {
  connectionsMax: 4_096,
  connectionsPerAddressMax: 1_024,
  headersTimeout: 5_000,
  requestTimeout: 10_000,
  // Often, so that those which came together do not all end in the same turn of the event loop.
  connectionsCheckingInterval: 20,
  // Longer than load balancers keep idle connections (60 s), so that they close them, not this server: a
  // request that crosses our close is lost.
  keepAliveTimeout: 65_000,
  pipelinedKeepAliveTimeout: 5_000,
  answerTimeout: 30_000,
};

/**
 * A server that no client can exhaust: connections are limited, in total and per address. Each connection is answered one
 * request at a time, and is closed when it sends too slowly or does not read its answer.
 */
export function makeHttpServer(
  listener: RequestListener,
  deps: { readonly limits?: Partial<ServerLimits>; readonly clock: Clock; readonly logger: Logger },
): Server {
  const limits = { ...SERVER_LIMITS, ...deps.limits };
  const {
    connectionsMax,
    connectionsPerAddressMax,
    answerTimeout,
    pipelinedKeepAliveTimeout,
    ...nodeLimits
  } = limits;
  const logClosed = makeCloseLog(deps);
  const {
    listener: receive,
    isAnswering,
    hasPipelined,
  } = oneAtATime(listener, {
    waitingMax: WAITING_MAX,
    pace: makePipelinePace(deps.clock),
    floodHoldMs: pipelinedKeepAliveTimeout,
    onIdle: (socket) => void socket.setTimeout(pipelinedKeepAliveTimeout),
    onPipelined: (socket) => readInTurn(socket),
    onFlood: () => logClosed("too_many_pipelined_requests"),
  });
  const server = createServer({ ...nodeLimits, maxHeaderSize: HEADER_BYTES_MAX }, receive);
  server.maxConnections = connectionsMax;
  server.on("drop", () => logClosed("too_many_connections"));
  const { readInTurn } = trackConnections(server, {
    perAddressMax: connectionsPerAddressMax,
    isAnswering,
    onRefused: () => logClosed("too_many_connections_of_an_address"),
  });
  server.setTimeout(answerTimeout, (socket: Socket) => {
    // Resets if answers may be unread, because the kernel would keep data for this client after a close.
    // Between requests the keep-alive time-out applies; and while an answer is still being prepared, there is nothing to read.
    if (!isAnswering(socket)) {
      if (hasPipelined(socket)) socket.resetAndDestroy();
      else socket.destroy();
    } else if (socket.writableLength > 0) {
      socket.resetAndDestroy();
      logClosed("answer_not_taken");
    }
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
