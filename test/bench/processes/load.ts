import { connect, type Socket } from "node:net";
import { quantile } from "../measure.ts";
import { makeRequests, type RequestsOrder } from "../requests.ts";

/** The resolution of timers. Between two events at a slower pace there is one wake-up, not one per millisecond. */
const TICK_MS = 1;

/** A request to the load generator. */
export interface LoadOrder extends RequestsOrder {
  readonly connections: number;
  /** Sends at this pace, independent of the answers; without it, each connection sends when it has its answer. */
  readonly perSecond?: number;
}

export interface LoadAnswer {
  readonly value: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly errors: number;
  /** When the sending of each event began, in milliseconds since 1970, in the sequence of the events. */
  readonly sentAtMs: Float64Array;
}

async function run(order: LoadOrder): Promise<LoadAnswer> {
  const prepared = makeRequests(order);
  const connections = openConnections({ url: order.url, count: order.connections });
  const sentAtMs = new Float64Array(prepared.length);
  const latenciesMs: number[] = [];
  let errors = 0;
  const send = async (index: number) => {
    const startedMs = performance.now();
    sentAtMs[index] = performance.timeOrigin + startedMs;
    const status = await connections.send(prepared[index] ?? Buffer.alloc(0)).catch(() => 0);
    if (status === 200) latenciesMs.push(performance.now() - startedMs);
    else errors += 1;
  };
  globalThis.gc?.();
  const startedMs = performance.now();
  await (order.perSecond === undefined
    ? sendInTurn(prepared.length, order.connections, send)
    : sendAtPace(prepared.length, order.perSecond, send));
  const seconds = (performance.now() - startedMs) / 1_000;
  connections.close();
  const value = latenciesMs.length / seconds;
  const [p50Ms, p99Ms] = [quantile(latenciesMs, 0.5), quantile(latenciesMs, 0.99)];
  return { value, p50Ms, p99Ms, errors, sentAtMs };
}

/** Each connection sends its next request when it has its answer. */
async function sendInTurn(
  count: number,
  connections: number,
  send: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const connection = async () => {
    while (next < count) await send(next++);
  };
  await Promise.all(Array.from({ length: connections }, connection));
}

/** Sends on schedule, independent of the answers. */
async function sendAtPace(
  count: number,
  perSecond: number,
  send: (index: number) => Promise<void>,
): Promise<void> {
  const sent: Promise<void>[] = [];
  const startedMs = performance.now();
  while (sent.length < count) {
    const due = Math.min(count, Math.ceil(((performance.now() - startedMs) / 1_000) * perSecond));
    while (sent.length < due) sent.push(send(sent.length));
    const dueInMs = startedMs + (sent.length / perSecond) * 1_000 - performance.now();
    await new Promise((resolve) => setTimeout(resolve, Math.max(TICK_MS, dueInMs)));
  }
  await Promise.all(sent);
}

/** Keep-alive connections, each with one request at a time. */
interface Connections {
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
function openConnections({ url, count }: { url: string; count: number }): Connections {
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

process.on("message", (order: LoadOrder) => void run(order).then((answer) => process.send?.(answer)));
process.send?.("ready");
