import { once } from "node:events";
import { connect } from "node:net";

export interface RawAnswer {
  readonly status: number;
  /** Names in lower case; the last one wins. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

export type RawConnection = Awaited<ReturnType<typeof openRaw>>;

/** `reads: false`: a client that reads none of its answers. */
export async function openRaw(port: number, { reads = true } = {}) {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  socket.setNoDelay(true);
  socket.on("error", () => undefined);
  let received = "";
  let notify: () => void = () => undefined;
  let open = true;
  if (reads) {
    socket.on("data", (chunk) => {
      received += chunk.toString("latin1");
      notify();
    });
  }
  const closed = new Promise<void>((resolve) => {
    socket.on("close", () => {
      open = false;
      notify();
      resolve();
    });
  });
  return {
    write: (bytes: string | Buffer) => void socket.write(bytes),
    /** The next answer on this connection. Rejects when the connection closes before it is complete. */
    async readAnswer() {
      for (;;) {
        const cut = cutAnswer(received, !open);
        if (cut) {
          received = cut.rest;
          return cut.answer;
        }
        if (!open) throw new Error(`closed after ${JSON.stringify(received.slice(0, 200))}`);
        await new Promise<void>((resolve) => (notify = resolve));
      }
    },
    /** Resets the connection, as a sender that gives up does. */
    abort: () => void socket.resetAndDestroy(),
    closed,
  };
}

/** Sends one request unchanged and returns the answer. */
export async function sendRaw(port: number, ...parts: readonly (string | Buffer)[]): Promise<RawAnswer> {
  const connection = await openRaw(port);
  for (const part of parts) connection.write(part);
  try {
    return await connection.readAnswer();
  } finally {
    connection.abort();
  }
}

/** The head of a request, with the empty line after it. */
export function makeHead(target: string, headers: readonly (readonly [string, string | number])[]): string {
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  return `${target} HTTP/1.1\r\nHost: localhost\r\n${lines}\r\n`;
}

function cutAnswer(text: string, ended: boolean): { answer: RawAnswer; rest: string } | undefined {
  const headEnd = text.indexOf("\r\n\r\n");
  if (headEnd === -1) return undefined;
  const [statusLine = "", ...lines] = text.slice(0, headEnd).split("\r\n");
  const headers = new Map(
    lines.map((line): [string, string] => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
    }),
  );
  const start = headEnd + 4;
  const length = headers.get("content-length");
  if (length === undefined && !ended) return undefined;
  const end = length === undefined ? text.length : start + Number(length);
  if (text.length < end) return undefined;
  const status = Number(statusLine.split(" ")[1]);
  return { answer: { status, headers, body: text.slice(start, end) }, rest: text.slice(end) };
}
