import { connect } from "node:net";
import type pg from "pg";
import { sqlState } from "./databaseErrors.ts";

/** What the protocol needs to cancel the statement of a connection; pg has it and does not declare it. */
interface Cancellable {
  readonly host: string;
  readonly port: number;
  readonly processID: number | null;
  readonly secretKey: number | null;
}

const CANCEL_REQUEST = 80_877_102;
const REQUEST_BYTES = 16;
const SEND_TIMEOUT_MS = 2_000;

/**
 * Cancels on the server what a client gave up waiting for. The server does not notice by itself that the client is gone,
 * and of all waits the one for a synchronous standby has no timeout: each such commit would keep its backend until none
 * is left for anybody.
 *
 * A cancelled wait for a standby leaves the commit in place on the primary. Nobody hears of it as a success, since the
 * client is closed. Behind a pooler the request comes too late to be forwarded.
 */
export function cancelAbandoned(pool: pg.Pool): void {
  pool.on("release", (error: unknown, client) => {
    // An error of the server ends the statement; without one the client gave up, or the connection broke.
    if (error instanceof Error && sqlState(error) === undefined)
      sendCancelRequest(client as unknown as Cancellable);
  });
}

/** By the protocol itself: that needs no connection, of which there may be none left. */
function sendCancelRequest({ host, port, processID, secretKey }: Cancellable): void {
  if (processID === null || secretKey === null) return;
  const request = Buffer.alloc(REQUEST_BYTES);
  request.writeInt32BE(REQUEST_BYTES, 0);
  request.writeInt32BE(CANCEL_REQUEST, 4);
  request.writeInt32BE(processID, 8);
  request.writeInt32BE(secretKey, 12);
  const socket = host.startsWith("/") ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
  // The statement ends, or the server is away and has nothing to cancel.
  socket.on("error", () => undefined);
  socket.setTimeout(SEND_TIMEOUT_MS, () => socket.destroy());
  socket.unref();
  socket.end(request);
}
