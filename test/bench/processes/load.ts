import { connect, type Socket } from "node:net";
import { makeSigner } from "../../../src/signature/sign.ts";
import { at, makeEventBody } from "../../support/mirror/orders.ts";
import { WEBHOOK_SECRET } from "../../support/signing/signing.ts";
import { quantile } from "../measure.ts";

/** A request to the load generator. */
export interface LoadOrder {
  readonly url: string;
  readonly requests: number;
  readonly connections: number;
  /** Makes the events of this round differ from those of every other. */
  readonly round: number;
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
  const { url, requests, connections, perSecond = Infinity } = order;
  const prepared = makeRequests(order);
  const sentAtMs = new Float64Array(requests);
  const latenciesMs: number[] = [];
  let next = 0;
  globalThis.gc?.();
  const startedMs = performance.now();
  const sendOn = async () => {
    const connection = openConnection(url);
    for (let index = next++; index < requests; index = next++) {
      const dueMs = startedMs + (index / perSecond) * 1_000;
      const waitMs = dueMs - performance.now();
      if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
      // With a pace, the wait for a free connection counts.
      const begunMs = waitMs > 0 || perSecond === Infinity ? performance.now() : dueMs;
      sentAtMs[index] = performance.timeOrigin + begunMs;
      const status = await connection.send(prepared[index] ?? Buffer.alloc(0)).catch(() => 0);
      if (status === 200) latenciesMs.push(performance.now() - begunMs);
    }
    connection.close();
  };
  await Promise.all(Array.from({ length: connections }, sendOn));
  const seconds = (performance.now() - startedMs) / 1_000;
  const [p50Ms, p99Ms] = [quantile(latenciesMs, 0.5), quantile(latenciesMs, 0.99)];
  const errors = requests - latenciesMs.length;
  return { value: latenciesMs.length / seconds, p50Ms, p99Ms, errors, sentAtMs };
}

/**
 * A keep-alive connection with one request at a time. It costs a tenth of `node:http`, which uses a core for some 15,000
 * requests per second and would limit the measurement, and supports only answers with a Content-Length.
 */
function openConnection(url: string) {
  const { hostname, port } = new URL(url);
  let open: Socket | undefined;
  return {
    /** Resolves with the answer's status; rejects when the connection ends before the answer. */
    send: (request: Buffer) =>
      new Promise<number>((resolve, reject) => {
        // The event "close" follows an error.
        const connectAgain = () =>
          connect({ host: hostname, port: Number(port), noDelay: true }).on("error", () => undefined);
        const socket = open === undefined || open.destroyed ? connectAgain() : open;
        open = socket;
        let text = "";
        const onEnd = () => reject(new Error("the connection ended before the answer"));
        const read = (chunk: Buffer) => {
          text += chunk.toString("latin1");
          if (!isWhole(text)) return;
          socket.off("data", read).off("close", onEnd);
          if (/^connection: close/im.test(text)) socket.destroy();
          resolve(Number(text.slice(9, 12)));
        };
        socket.on("data", read).once("close", onEnd);
        socket.write(request);
      }),
    close: () => open?.destroy(),
  };
}

function isWhole(text: string): boolean {
  const headEnd = text.indexOf("\r\n\r\n");
  return headEnd !== -1 && text.length >= headEnd + 4 + Number(/\r\ncontent-length: (\d+)/i.exec(text)?.[1]);
}

/** Changes per order, spread over the round so that few are in one batch. */
const EVENTS_PER_ORDER = 4;
const NOTE = "x".repeat(300);

/** Distinct, correctly signed events of about 1 KB as the bytes of their requests, made before the clock starts. */
function makeRequests({ url, requests, round }: LoadOrder): Buffer[] {
  const sign = makeSigner({ secrets: [WEBHOOK_SECRET] });
  const { host, pathname } = new URL(url);
  const nowSeconds = Math.floor(Date.now() / 1_000);
  const orders = Math.ceil(requests / EVENTS_PER_ORDER);
  return Array.from({ length: requests }, (_, index) => {
    const id = `evt_${round}_${index}`;
    const order = { reference: `R${round}-${index % orders}`, updatedAt: at(index), more: { note: NOTE } };
    const body = makeEventBody({ id, order });
    const headers = { host, "content-type": "application/json", "content-length": body.length };
    const lines = Object.entries({ ...headers, ...sign({ id, body, nowSeconds }) })
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join("");
    return Buffer.concat([Buffer.from(`POST ${pathname} HTTP/1.1\r\n${lines}\r\n`), body]);
  });
}

process.on("message", (order: LoadOrder) => void run(order).then((answer) => process.send?.(answer)));
process.send?.("ready");
