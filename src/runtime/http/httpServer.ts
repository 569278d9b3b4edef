import { createServer } from "node:http";
import type { RequestListener, Server } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../lifecycle/clock.ts";
import { makeLogSampler } from "../telemetry/logSampler.ts";
import type { Logger } from "../telemetry/logger.ts";
import { trackConnections } from "./connectionsByAddress.ts";
import { oneAtATime } from "./oneAtATime.ts";

/** What one server takes from its clients. Times are in milliseconds. */
export interface ServerLimits {
  readonly connectionsMax: number;
  readonly connectionsPerAddressMax: number;
  /** For a whole head, and for a whole request: then 408. */
  readonly headersTimeout: number;
  readonly requestTimeout: number;
  /** How often those two are looked at. */
  readonly connectionsCheckingInterval: number;
  readonly keepAliveTimeout: number;
  /**
   * Instead of it for a connection that has sent requests without waiting for answers, which no balancer does; and how long
   * one that sent too many of them is held.
   */
  readonly pipelinedKeepAliveTimeout: number;
  /** A client that takes no byte of its answer for so long is let go. */
  readonly answerTimeout: number;
}

/** Requests that may stand behind another one of their connection: senders, browsers and balancers let none wait. */
const WAITING_MAX = 8;
const HEADER_BYTES_MAX = 16_384;
const LOG_INTERVAL_MS = 10_000;

/**
 * Node's own limits (60 s, 300 s, looked at every 30 s, and none on connections and on answers that nobody reads) let a
 * few hundred sockets hold up a process.
 * @internal
 */
export const SERVER_LIMITS: ServerLimits = {
  connectionsMax: 4_096,
  connectionsPerAddressMax: 1_024,
  headersTimeout: 5_000,
  requestTimeout: 10_000,
  connectionsCheckingInterval: 100,
  // Longer than what load balancers keep idle connections for (60 s), so that they close them and not we: a
  // request that meets our close half-way is lost.
  keepAliveTimeout: 65_000,
  pipelinedKeepAliveTimeout: 5_000,
  answerTimeout: 30_000,
};

/**
 * A server that no client can fill: connections are limited, all together and per address; each is answered one request at
 * a time; and one that sends too slowly, or does not take its answer, is closed.
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
    floodHoldMs: pipelinedKeepAliveTimeout,
    onIdle: (socket) => void socket.setTimeout(pipelinedKeepAliveTimeout),
    onFlood(socket) {
      logClosed("too_many_pipelined_requests");
      readInTurn(socket);
    },
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
    // A reset where answers may not have been taken, since what the kernel holds for this client would stay after a close.
    // Between requests the time-out is that of keep-alive; and an answer that is still being made has nothing to take.
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
