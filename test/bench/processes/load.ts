import { openConnections } from "../connections.ts";
import { quantile } from "../measure.ts";
import { makeRequests } from "../requests.ts";
import type { RequestsOrder } from "../requests.ts";
import { sendAtPace, sendInTurn } from "../sending.ts";

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

process.on("message", (order: LoadOrder) => void run(order).then((answer) => process.send?.(answer)));
process.send?.("ready");
