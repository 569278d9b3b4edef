import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import {
  createMirrorClient,
  type Change,
  type ChangesOptions,
  type Order,
} from "../../../src/client/mirrorClient.ts";
import { serve } from "../../support/http/serve.ts";

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

const TOKEN = "a-token-that-nobody-else-may-see";
const LOOP_MAX = 8;
const SECRET = "Ada Lovelace, 12 Main Street";

let answer: Answer;
/** Addresses that were requested from the mirror, and headers that the stranger got. */
const asked: string[] = [];
const leaked: unknown[] = [];

const mirror = await serve((request, response) => {
  asked.push(request.originalUrl);
  // Ends loops that would be endless.
  if (asked.length > LOOP_MAX) response.writeHead(403).end();
  else answer(request, response);
});
const stranger = await serve((request, response) => {
  leaked.push(request.headers);
  response.json({});
});
const client = createMirrorClient({ baseUrl: mirror.url, token: TOKEN, deadlineMs: 5_000 });
afterAll(async () => {
  await mirror.close();
  await stranger.close();
});
beforeEach(() => {
  asked.length = 0;
  leaked.length = 0;
});

const json =
  (value: unknown, headers: Record<string, string> = {}): Answer =>
  (_request, response) =>
    void response
      .writeHead(200, { "content-type": "application/json", ...headers })
      .end(JSON.stringify(value));

const stream =
  (body: string): Answer =>
  (_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(body);
  };

const event = (data: unknown, name = "change") => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;

const CHANGE = {
  position: "0123456789ab.1",
  reference: "DO-1",
  revision: 1,
  status: "created",
  previousStatus: null,
  verdict: "applied",
  cause: { via: "poll" },
  updatedAt: "2026-11-22T10:00:00Z",
  changedAt: "2026-11-22T10:00:01Z",
  changedFields: ["status"],
  before: null,
  after: { reference: "DO-1", status: "created", updatedAt: "2026-11-22T10:00:00Z" },
};

async function follow(options: ChangesOptions = {}): Promise<Change[]> {
  const seen: Change[] = [];
  for await (const change of client.changes({ after: "beginning", silenceMaxMs: 500, ...options }))
    seen.push(change);
  return seen;
}

async function list(): Promise<Order[]> {
  const listed: Order[] = [];
  for await (const order of client.orders()) listed.push(order);
  return listed;
}

const failureOf = (reading: Promise<unknown>): Promise<unknown> => reading.catch((error: unknown) => error);

/** Every text that a log of the error could contain. */
function showAll(error: unknown): string {
  return error instanceof Error
    ? `${error.name} ${error.message} ${error.stack} ${showAll(error.cause)}`
    : String(error);
}

describe("a stream of changes", () => {
  it.each([
    ["no JSON", `event: change\ndata: {"position":"0123456789ab.1", ${SECRET}\n\n`],
    ["null", event(null)],
    ["a change without a position", event({ ...CHANGE, position: undefined, note: SECRET })],
    ["a change by prototype", `event: change\ndata: {"__proto__":${JSON.stringify(CHANGE)}}\n\n`],
    ["an order that is none", event({ ...CHANGE, after: SECRET })],
    ["a record without a time", event({ position: "0123456789ab.1", exceptions: 0 }, "complete")],
  ])("ends with an error that shows nothing of the order: %s", async (_name, body) => {
    answer = stream(body);
    const saved: string[] = [];
    const store = {
      load: () => Promise.resolve(undefined),
      save: async (position: string) => void saved.push(position),
    };
    const error = await failureOf(follow({ store, onComplete: () => undefined }));
    expect(error).toMatchObject({ failure: "unreadable", status: null });
    expect(showAll(error)).not.toContain("Lovelace");
    expect([saved, asked.length]).toEqual([[], 1]);
  });

  it("ends with an error when a line has no end, and reads no further", async () => {
    let sent = 0;
    let closed: Promise<unknown> | undefined;
    answer = (_request, response) => {
      closed = once(response, "close");
      response.writeHead(200, { "content-type": "text/event-stream" }).write("data: ");
      const more = () => {
        while (!response.destroyed && sent < 30_000_000 && response.write("x".repeat(100_000)))
          sent += 100_000;
      };
      response.on("drain", more);
      more();
    };
    await expect(follow()).rejects.toMatchObject({ failure: "unreadable" });
    await closed;
    expect(sent).toBeLessThan(30_000_000);
  });

  it("that is silent for ever is given up, and opened again", { timeout: 60_000 }, async () => {
    answer = stream("");
    const stop = new AbortController();
    const failures: string[] = [];
    await follow({
      // A loop that waits for ever ends here, and has no failure to show.
      signal: AbortSignal.any([stop.signal, AbortSignal.timeout(30_000)]),
      onState(state) {
        if (state.state === "waiting") failures.push(state.error.failure);
        if (asked.length === 2) stop.abort();
      },
    });
    expect(failures[0]).toBe("timeout");
    expect(asked.filter((address) => address.startsWith("/v1/changes/stream"))).toHaveLength(2);
  });

  it("that is refused is opened again only after Retry-After", async () => {
    answer = (_request, response) => void response.writeHead(503, { "retry-after": "50" }).end();
    const stop = new AbortController();
    const waits: number[] = [];
    await follow({
      signal: stop.signal,
      onState(state) {
        if (state.state === "waiting") waits.push(state.retryMs);
        stop.abort();
      },
    });
    expect(waits).toEqual([50_000]);
  });

  it("keeps a character whose bytes come in two parts", async () => {
    const bytes = Buffer.from(event(CHANGE) + event({ ...CHANGE, status: "Zoë" }));
    const middle = bytes.indexOf("ë") + 1;
    let more: () => void = () => undefined;
    answer = (_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" }).write(bytes.subarray(0, middle));
      more = () => response.write(bytes.subarray(middle));
    };
    const seen: string[] = [];
    for await (const { status } of client.changes({ after: "beginning" })) {
      // The first part is here.
      if (seen.push(status) === 2) break;
      more();
    }
    expect(seen).toEqual(["created", "Zoë"]);
  });

  it("ends with the errors of the program's own functions", async () => {
    const own = new Error("the disk is full");
    const fail = () => {
      throw own;
    };
    answer = stream(
      event({ through: CHANGE.updatedAt, exceptions: 0, position: CHANGE.position }, "complete"),
    );
    await expect(follow({ onComplete: fail })).rejects.toBe(own);
    await expect(follow({ onState: fail })).rejects.toBe(own);
    expect(asked).toHaveLength(2);
  });
});

it("pages continue at the same mirror, wherever the link points", async () => {
  answer = json({ data: [] }, { link: `<${stranger.url}/v1/orders?cursor=1>; rel="next"` });
  expect(await list()).toEqual([]);
  expect([asked.length, leaked]).toEqual([1, []]);
});

it("follows no redirect with its token, and names the setting that is wrong", async () => {
  answer = (_request, response) =>
    void response.writeHead(307, { location: `${stranger.url}/v1/orders` }).end();
  const reads = [() => client.order("DO-1"), () => list(), () => follow(), () => follow({ follow: false })];
  for (const read of reads) {
    const error = await failureOf(read());
    expect(error).toMatchObject({ fix: expect.stringContaining("base address") as string });
    expect(showAll(error)).not.toContain(TOKEN);
  }
  expect(leaked).toEqual([]);
});

it("names its source in each request", async () => {
  const sources: unknown[] = [];
  answer = (request, response) => {
    sources.push(request.headers["x-source"]);
    response.writeHead(403).end();
  };
  const test = createMirrorClient({ baseUrl: mirror.url, token: TOKEN, source: "test" });
  const changes = (after?: string) => test.changes({ after }).next();
  const reads = [
    () => test.order("DO-1"),
    () => test.orders().pages().next(),
    changes,
    () => changes("beginning"),
  ];
  for (const read of reads) await expect(read()).rejects.toMatchObject({ status: 403 });
  expect(sources).toEqual(Array(4).fill("test"));
});
