import { loadScheme } from "../../../src/signature/scheme.ts";
import { makeSigner } from "../../../src/signature/sign.ts";
import { at, makeEventBody } from "../../support/mirror/orders.ts";
import { WEBHOOK_SECRET } from "../../support/signing/webhooks.ts";
import { openConnections } from "../connections.ts";
import { quantile } from "../measure.ts";
import { sendAtPace, sendInTurn } from "../sending.ts";

/** A request to the load generator. */
export interface LoadOrder {
  readonly url: string;
  readonly requests: number;
  readonly connections: number;
  /** Makes the events of this round differ from those of every other. */
  readonly round: number;
  /** Sends at this pace, independent of the answers; without it, each connection sends when it has its answer. */
  readonly perSecond?: number;
  /** Spreads the events over this many sources: `url` is the parent of their addresses, which end in org-0 and so on. */
  readonly sources?: number;
  /** Changes per order, spread over the round so that few are in one batch; 4 by default. */
  readonly eventsPerOrder?: number;
}

export interface LoadAnswer {
  readonly value: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly errors: number;
  /** When the sending of each event began, in milliseconds since 1970, in the sequence of the events. */
  readonly sentAtMs: Float64Array;
}

const EVENTS_PER_ORDER = 4;

const scheme = loadScheme("standard-webhooks");
const sign = makeSigner({ scheme, secret: WEBHOOK_SECRET });

/** The id of an event: its round and number. */
function makeEventId(round: number, index: number): string {
  return `evt_${round}_${index}`;
}

/** Distinct, correctly signed events of about 1 KB as the bytes of their requests, made before the clock starts. */
function makeRequests(order: LoadOrder): Buffer[] {
  const { requests, round, eventsPerOrder = EVENTS_PER_ORDER } = order;
  const nowSeconds = Math.floor(Date.now() / 1_000);
  const orders = Math.ceil(requests / eventsPerOrder);
  return Array.from({ length: requests }, (_, index) => {
    const id = makeEventId(round, index);
    const reference = `R${round}-${index % orders}`;
    const body = makeEventBody({
      id,
      order: { reference, updatedAt: at(index), more: { note: "x".repeat(300) } },
    });
    const { host, pathname } = addressOf(order, index);
    const headers = { host, "content-type": "application/json", "content-length": body.length };
    const lines = Object.entries({ ...headers, ...sign({ id, body, nowSeconds }) })
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join("");
    return Buffer.concat([Buffer.from(`POST ${pathname} HTTP/1.1\r\n${lines}\r\n`), body]);
  });
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

function addressOf({ url, sources }: LoadOrder, index: number): URL {
  return new URL(sources === undefined ? url : `${url}/org-${index % sources}`);
}

process.on("message", (order: LoadOrder) => void run(order).then((answer) => process.send?.(answer)));
process.send?.("ready");
