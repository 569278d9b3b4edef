import { connect } from "node:net";
import type pg from "pg";
import { sqlState } from "./databaseErrors.ts";

/** What the protocol needs to cancel a connection's statement; pg has it but does not declare it. */
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
 * Cancels statements on the server that the client gave up on. The server does not notice that the client is gone, and
 * the wait for a synchronous standby has no timeout: each such commit would occupy its backend until none is left.
 *
 * A cancelled wait for a standby leaves the commit in place on the primary. Nobody sees it as a success, because the
 * client is closed. Behind a pooler the cancel request arrives too late to be forwarded.
 */
export function cancelAbandoned(pool: pg.Pool): void {
  pool.on("release", (error: unknown, client) => {
    // An error from the server ends the statement; any other error means that the client gave up or the connection
    // broke.
    if (error instanceof Error && sqlState(error) === undefined)
      sendCancelRequest(client as unknown as Cancellable);
  });
}

/** Sent as a bare protocol message: that needs no pooled connection, and none may be left. */
function sendCancelRequest({ host, port, processID, secretKey }: Cancellable): void {
  if (processID === null || secretKey === null) return;
  const request = Buffer.alloc(REQUEST_BYTES);
  request.writeInt32BE(REQUEST_BYTES, 0);
  request.writeInt32BE(CANCEL_REQUEST, 4);
  request.writeInt32BE(processID, 8);
  request.writeInt32BE(secretKey, 12);
  const socket = host.startsWith("/") ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
  // The statement has ended, or the server is down and has nothing to cancel.
  socket.on("error", () => undefined);
  socket.setTimeout(SEND_TIMEOUT_MS, () => socket.destroy());
  socket.unref();
  socket.end(request);
}
