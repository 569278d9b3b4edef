import { Agent, request } from "node:http";
import { loadScheme } from "../../src/signature/scheme.ts";
import { makeSigner } from "../../src/signature/sign.ts";
import { at, makeEventBody } from "../support/orders.ts";
import { WEBHOOK_SECRET } from "../support/webhooks.ts";
import { median } from "./measure.ts";

/** What the load generator is told on standard input, and answers on standard output, a JSON line each. */
export interface LoadOrder {
  readonly url: string;
  readonly requests: number;
  readonly connections: number;
  /** Makes the bodies of this round differ from those of every other. */
  readonly round: number;
}

const sign = makeSigner({ scheme: loadScheme("standard-webhooks"), secret: WEBHOOK_SECRET });

/** Distinct, correctly signed events of about 1 KB, made before the clock starts. */
function makeRequests({ requests, round }: LoadOrder) {
  const nowSeconds = Math.floor(Date.now() / 1_000);
  return Array.from({ length: requests }, (_, index) => {
    const id = `evt_${round}_${index}`;
    const order = { reference: `R${round}-${index}`, updatedAt: at(index), more: { note: "x".repeat(300) } };
    const body = makeEventBody({ id, order });
    const headers = {
      ...sign({ id, body, nowSeconds }),
      "content-type": "application/json",
      "content-length": body.length,
    };
    return { body, headers };
  });
}

async function run(order: LoadOrder) {
  const prepared = makeRequests(order);
  const agent = new Agent({ keepAlive: true, maxSockets: order.connections });
  const latenciesMs: number[] = [];
  let errors = 0;
  let next = 0;
  const send = ({ body, headers }: (typeof prepared)[number]) =>
    new Promise<void>((resolve) => {
      const startedMs = performance.now();
      const sending = request(order.url, { method: "POST", agent, headers }, (response) => {
        response.resume();
        response.once("end", () => {
          if (response.statusCode === 200) latenciesMs.push(performance.now() - startedMs);
          else errors += 1;
          resolve();
        });
      });
      sending.once("error", () => {
        errors += 1;
        resolve();
      });
      sending.end(body);
    });
  const connection = async () => {
    for (let one = prepared[next++]; one; one = prepared[next++]) await send(one);
  };
  const startedMs = performance.now();
  await Promise.all(Array.from({ length: order.connections }, connection));
  const seconds = (performance.now() - startedMs) / 1_000;
  agent.destroy();
  latenciesMs.sort((left, right) => left - right);
  return {
    perSecond: latenciesMs.length / seconds,
    p50Ms: median(latenciesMs),
    p99Ms: latenciesMs[Math.floor(latenciesMs.length * 0.99)],
    errors,
  };
}

process.stdin.setEncoding("utf8").on("data", (line: string) => {
  void run(JSON.parse(line) as LoadOrder).then((sample) =>
    process.stdout.write(`${JSON.stringify(sample)}\n`),
  );
});
