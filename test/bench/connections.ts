import { connect } from "node:net";
import type { Socket } from "node:net";

/** Keep-alive connections, each with one request at a time. */
export interface Connections {
  /**
   * Sends a complete request on the next free connection. Resolves with the answer's status; rejects when the connection
   * ends before the answer, or when all are closed.
   */
  readonly send: (request: Buffer) => Promise<number>;
  readonly close: () => void;
}

interface Waiting {
  readonly request: Buffer;
  readonly resolve: (status: number) => void;
  readonly reject: (error: Error) => void;
}

/**
 * A client that costs a tenth of `node:http`, which uses a core for some 15,000 requests per second and would limit the
 * measurement. It supports only what a Node server answers.
 */
export function openConnections({ url, count }: { url: string; count: number }): Connections {
  const { hostname, port } = new URL(url);
  const idle: Socket[] = [];
  const open = new Set<Socket>();
  const waiting: Waiting[] = [];
  let closed = false;

  function sendNext(): void {
    while (waiting.length > 0) {
      const socket = idle.pop() ?? (open.size < count ? openSocket() : undefined);
      const next = waiting[0];
      if (socket === undefined || next === undefined) return;
      waiting.shift();
      exchange(socket, next);
    }
  }

  function openSocket(): Socket {
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    open.add(socket);
    socket.once("close", () => {
      open.delete(socket);
      const at = idle.indexOf(socket);
      if (at !== -1) idle.splice(at, 1);
      sendNext();
    });
    // The event "close" follows and reports the outcome.
    socket.on("error", () => undefined);
    return socket;
  }

  function exchange(socket: Socket, { request, resolve, reject }: Waiting): void {
    let text = "";
    const onEnd = () => reject(new Error("the connection ended before the answer"));
    const read = (chunk: Buffer) => {
      text = text + chunk.toString("latin1");
      if (!isWhole(text)) return;
      socket.off("data", read);
      socket.off("close", onEnd);
      if (/^connection: close/im.test(text)) socket.destroy();
      else idle.push(socket);
      resolve(Number(text.slice(9, 12)));
      sendNext();
    };
    socket.on("data", read);
    socket.once("close", onEnd);
    socket.write(request);
  }

  return {
    send: (request) =>
      new Promise((resolve, reject) => {
        if (closed) return reject(new Error("the connections are closed"));
        waiting.push({ request, resolve, reject });
        sendNext();
      }),
    close() {
      closed = true;
      for (const { reject } of waiting.splice(0)) reject(new Error("the connections are closed"));
      for (const socket of open) socket.destroy();
    },
  };
}

function isWhole(text: string): boolean {
  const headEnd = text.indexOf("\r\n\r\n");
  if (headEnd === -1) return false;
  const [, length] = /\r\ncontent-length: (\d+)/i.exec(text) ?? [];
  if (length !== undefined) return text.length >= headEnd + 4 + Number(length);
  return text.endsWith("\r\n0\r\n\r\n");
}
