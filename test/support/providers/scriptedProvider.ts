import { makeOrder } from "../mirror/orders.ts";
import { text as readText } from "node:stream/consumers";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { makeBudget } from "../../../src/provider/budget.ts";
import { makeProviderClient, type ProviderClientDeps } from "../../../src/provider/client.ts";
import { makeProviderClock } from "../../../src/provider/providerClock.ts";
import { makeRetrying, makeTransport, type RequestOptions } from "../../../src/provider/transport.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { listenHere } from "../http/serve.ts";

export interface ReceivedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
  /** Of the monotonic clock. */
  readonly atMs: number;
}

/** What a server does with one request; a response that is never ended hangs until the server closes. */
export type Step = (response: ServerResponse, request: ReceivedRequest) => void;

/** A server that does what a test scripts, at the level of HTTP. */
export async function startScriptedProvider() {
  const requests: ReceivedRequest[] = [];
  let steps: readonly Step[] = [];
  const server = createServer((request, response) => {
    const atMs = performance.now();
    void readText(request).then((body) => {
      const { method = "", url = "", headers } = request;
      const received = { method, url, headers, body, atMs };
      requests.push(received);
      const [step, ...rest] = steps;
      if (rest.length > 0) steps = rest;
      step?.(response, received);
    });
  });
  const { url, close } = await listenHere(server);
  return {
    /** Base address without a slash at the end. */
    url,
    requests,
    /** Answers the next requests by these steps, in this sequence, the last one for ever. */
    script(...next: readonly Step[]) {
      steps = next;
      requests.length = 0;
    },
    close,
  };
}

/** Answers with JSON. */
export function json(status: number, value: unknown, headers: Record<string, string> = {}): Step {
  return text(status, JSON.stringify(value), { "content-type": "application/json", ...headers });
}

export function text(status: number, body: string | Buffer, headers: Record<string, string> = {}): Step {
  return (response) => {
    response.writeHead(status, headers).end(body);
  };
}

/** Answers with an error body as the spec's codes suggest it. */
export function refusal(status: number, code: string, headers: Record<string, string> = {}): Step {
  return json(status, { error: { code, message: `${code}: Jane` }, request_id: "req_refused" }, headers);
}

/** Never answers. */
export const hang: Step = () => undefined;

/** Closes the connection without an answer, as a server does with an idle keep-alive socket. */
export const hangUp: Step = (response) => {
  response.socket?.destroy();
};

/** The body of a request that creates an order. */
export const NEW_ORDER = {
  externalOrderId: "shop-1",
  branch: "AMS-1",
  customer: {
    firstName: "Jane",
    phone: "+31 6 1234",
    address: { street: "Dam 1", city: "Ams", postcode: "1" },
  },
  schedule: { mode: "asap" },
};

/** An order object with everything the spec shows. */
export function orderBody(fields: Record<string, unknown> = {}): Record<string, unknown> {
  const order = makeOrder({ reference: "DO-1", updatedAt: "2099-11-20T12:00:00+01:00" });
  return { ...order, externalOrderId: "shop-1", ...fields };
}

/** The product's client, and two writes, without pauses of the budget, and with short ones between attempts. */
export function makeHastyClient(deps: Partial<ProviderClientDeps> & { baseUrl: string }) {
  const limit = { requestsMax: 100_000, windowMs: 1_000 };
  const limits = { sustained: limit, "order-list": limit, geocoding: limit };
  const given = {
    apiKey: "dos_live_1",
    clock: hastyClock,
    budget: makeBudget({ clock: systemClock, limits }),
    logger: silentLogger,
    deadlineMs: 10_000,
    ...deps,
  };
  const providerClock = makeProviderClock(given.clock);
  const send = makeRetrying({ send: makeTransport({ ...given, providerClock }), clock: given.clock });
  const write = { method: "POST", policy: "sustained", safe: false } as const;
  return {
    ...makeProviderClient(given),
    createOrder: (body: object) =>
      send({ ...write, route: "/v1/orders", bytes: Buffer.from(JSON.stringify(body)) }, {}),
    cancelOrder: (reference: string, options: RequestOptions = {}) =>
      send({ ...write, route: "/v1/orders/{reference}/cancel", reference }, options),
  };
}

/** Sleeps a hundredth of the time. */
const hastyClock = {
  ...systemClock,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 100, signal),
};
