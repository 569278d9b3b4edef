import { createServer, type IncomingHttpHeaders } from "node:http";
import { buffer } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import { startSandbox, type SandboxOptions } from "../../../src/sandbox/startSandbox.ts";
import { makeTestDatabase } from "../servers/database.ts";
import { listenHere } from "../http/serve.ts";

export const LIVE = "dos_live_sandbox";
export const TEST = "dos_test_sandbox";
export const SANDBOX_SECRET = `whsec_${Buffer.from("the sandbox signs with thirty-two").toString("base64")}`;

const CONTROL_PAGE = 5_000;

export interface SandboxAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // Tests read only members that they know to exist.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly json: any;
}

export type TestSandbox = Awaited<ReturnType<typeof makeTestSandbox>>;

export interface AskOptions {
  readonly key?: string | null;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

/** On a free port, with the fleet at rest and the rate limits off. */
export const AT_REST = { port: 0, seed: 1, speed: 0, rateLimits: false } as const;

/** A sandbox in its own database, at rest unless requested otherwise. */
export async function makeTestSandbox(options: Partial<SandboxOptions> = {}) {
  const database = await makeTestDatabase();
  const sandbox = await startSandbox({ databaseUrl: database.url, ...AT_REST, ...options });
  return {
    ...speakTo(sandbox),
    database,
    close: async () => {
      await sandbox.close();
      await database.drop();
    },
  };
}

/** For a sandbox that a test started itself, or for a mirror. */
export function speakTo<Started extends { readonly url: string }>(sandbox: Started) {
  const { url } = sandbox;
  /** One request to the provider's interface; `key` null sends none, the default is the live key. */
  const ask = async (
    method: string,
    path: string,
    { key = LIVE, body, headers = {} }: AskOptions = {},
  ): Promise<SandboxAnswer> => {
    const response = await fetch(url + path, {
      method,
      // The server may close a kept connection at the very moment when the next request uses it.
      headers: {
        connection: "close",
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...headers,
      },
      redirect: "manual",
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, json: tryParse(text) };
  };
  /** One request to the control interface, which must succeed. */
  const steer = async (method: string, path: string, body?: unknown): Promise<SandboxAnswer["json"]> => {
    const answer = await ask(method, `/_sandbox${path}`, {
      key: null,
      ...(body === undefined ? {} : { body }),
      headers: { "content-type": "application/json" },
    });
    if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
    return answer.json;
  };
  return { sandbox, url, ask, steer };
}

/** All live orders as the provider has them now, by reference. */
export async function readLiveOrders(
  steer: TestSandbox["steer"],
): Promise<Map<string, Record<string, unknown>>> {
  const orders = new Map<string, Record<string, unknown>>();
  for (let after: string | null = "0"; after !== null;) {
    const page = (await steer("GET", `/orders?mode=live&after=${after}&limit=${CONTROL_PAGE}`)) as {
      orders: Record<string, unknown>[];
      next: string | null;
    };
    for (const order of page.orders) orders.set(String(order["reference"]), order);
    after = page.next;
  }
  return orders;
}

/** A body that creates an order. */
export function orderBody(change: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    branch: "centrum",
    customer: { firstName: "Anna", phone: "+31 6 1234 5678", address: anAddress() },
    schedule: { mode: "asap" },
    ...change,
  };
}

export function anAddress(change: Record<string, string> = {}): Record<string, string> {
  return { street: "Overtoom 12", city: "Amsterdam", postcode: "1054 HN", ...change };
}

export interface ReceivedEvent {
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: NodeJS.Dict<string[]>;
  readonly body: Buffer;
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly event: any;
}

export type EventReceiver = Awaited<ReturnType<typeof receiveEvents>>;

/** A webhook endpoint that keeps what it receives; closed automatically at the end of the test, or with `ends` of a file. */
export async function receiveEvents(ends: (close: () => Promise<void>) => void = onTestFinished) {
  const received: ReceivedEvent[] = [];
  const receiver = {
    url: "",
    received,
    /** Status to answer with, by the event's place in `received`. */
    answer: (_place: number) => 200,
    close: () => listening.close(),
  };
  const server = createServer((request, response) => {
    void buffer(request).then((body) => {
      const place = received.length;
      received.push({
        headers: request.headers,
        rawHeaders: request.headersDistinct,
        body,
        event: JSON.parse(body.toString("utf8")),
      });
      response.writeHead(receiver.answer(place)).end();
    });
  });
  const listening = await listenHere(server);
  ends(() => receiver.close());
  return Object.assign(receiver, { url: `${listening.url}/hook` });
}

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
