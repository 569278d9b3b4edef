import { afterAll, describe, expect, it } from "vitest";
import { gzipSync } from "node:zlib";
import { ConfigurationError } from "../../../src/domain/errors.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { makeBudget } from "../../../src/provider/budget.ts";
import type { ProviderError } from "../../../src/provider/errors.ts";
import { systemClock } from "../../../src/process/clock.ts";
import {
  hang,
  hangUp,
  json,
  makeHastyClient,
  NEW_ORDER,
  orderBody,
  refusal,
  startScriptedProvider,
  text,
  type Step,
} from "../../support/providers/scriptedProvider.ts";
import { logInto } from "../../support/run/logInto.ts";

const provider = await startScriptedProvider();
const client = makeHastyClient({ baseUrl: provider.url });
afterAll(() => provider.close());

const WINDOW = { since: 0n, until: 1n, limit: 50, offset: 0 };
const page = (data: unknown[]) => ({ data, hasMore: false, limit: 50, offset: 0, request_id: "req_1" });
const single = (fields = {}) => json(200, { ...orderBody(fields), request_id: "req_1" });

/** Returns the error with which `promise` was rejected. */
const failureOf = async (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => {
      throw new TypeError("it did not fail");
    },
    (error: unknown) => error,
  );

describe("requests", () => {
  it.each<[string, () => Promise<unknown>, string, unknown]>([
    ["with a body", () => client.createOrder(NEW_ORDER), "POST /v1/orders", NEW_ORDER],
    ["without", () => client.getOrder("DO-1"), "GET /v1/orders/DO-1", null],
  ])("%s go to the right place with the key", async (_, ask, line, body) => {
    provider.script(single());
    await ask();
    const [request] = provider.requests;
    expect(`${request!.method} ${request!.url}`).toBe(line);
    expect(request!.headers.authorization).toBe("Bearer dos_live_1");
    expect(request!.body === "" ? null : JSON.parse(request!.body)).toEqual(body);
    expect(request!.headers["content-type"]).toBe(body === null ? undefined : "application/json");
  });

  it("list a window and keep the exact text of every order", async () => {
    const listed = '{"reference":"DO-1","updatedAt":"2026-11-20T12:00:00Z","n":1.0}';
    provider.script(
      text(200, `{"data":[ ${listed},\n7 ],"hasMore":true,"limit":2,"offset":4,"request_id":"r"}`, {
        "content-type": "application/json",
      }),
    );
    const since = parseInstant("2026-11-20T12:00:00.123456+01:00");
    const until = parseInstant("2026-11-20T13:00:00Z");
    const answer = await client.listWindow({ since, until, limit: 2, offset: 4 });
    expect(answer.elements).toMatchObject([{ snapshot: { raw: listed } }, { kind: "unreadable", raw: "7" }]);
    expect(answer).toMatchObject({ hasMore: true, limit: 2, offset: 4 });
    expect(Object.fromEntries(new URL(provider.requests[0]!.url, provider.url).searchParams)).toEqual({
      updatedSince: "2026-11-20T11:00:00.123456Z",
      updatedUntil: "2026-11-20T13:00:00Z",
      sort: "updatedAt",
      limit: "2",
      offset: "4",
    });
  });

  it("list branches by pages, and keep the exact text of each", async () => {
    const branch =
      '{"id":"b-1", "reference":null,"name":"B","address":{"street":"s","city":"c","postcode":"p"},"routesTo":null,"connectedZones":[]}';
    provider.script(
      text(200, `{"data":[${branch},{"id":"odd"}],"hasMore":false,"request_id":"r"}`, {
        "content-type": "application/json",
      }),
    );
    expect(await client.listBranches({ limit: 2, offset: 4 })).toMatchObject({
      raws: [branch, '{"id":"odd"}'],
      hasMore: false,
    });
    expect(provider.requests[0]!.url).toBe("/v1/branches?limit=2&offset=4");
  });

  it("encode references as a single path segment", async () => {
    provider.script(single());
    for (const reference of ["a/b", "a?b#c", "../x", "%2e%2e", "é ü", "$&", "a\\b"]) {
      await client.getOrder(reference);
    }
    expect(provider.requests.map(({ url }) => url)).toEqual([
      "/v1/orders/a%2Fb",
      "/v1/orders/a%3Fb%23c",
      "/v1/orders/..%2Fx",
      "/v1/orders/%252e%252e",
      "/v1/orders/%C3%A9%20%C3%BC",
      "/v1/orders/%24%26",
      "/v1/orders/a%5Cb",
    ]);
  });

  it.each(["", ".", "..", "\ud800"])("are not sent for the reference %j", async (reference) => {
    provider.script(single());
    await expect(client.getOrder(reference)).rejects.toMatchObject({ code: "unsendable_path" });
    expect(provider.requests).toEqual([]);
  });

  it("stay below the path of the base address", async () => {
    provider.script(single());
    await makeHastyClient({ baseUrl: `${provider.url}/api/` }).getOrder("DO-1");
    expect(provider.requests[0]!.url).toBe("/api/v1/orders/DO-1");
  });

  it.each(["", "ftp://x", "http://user:pw@x", "http://x/?a=1", "http://x/#a", "no address"])(
    "are refused with the base address %j",
    (baseUrl) => {
      expect(() => makeHastyClient({ baseUrl })).toThrow(ConfigurationError);
    },
  );

  it.each(["", "key with space", "key\n", "kéy"])(
    "are refused with the key %j, which is not shown",
    (apiKey) => {
      expect(() => makeHastyClient({ baseUrl: provider.url, apiKey })).toThrow(
        /^the API key is empty or holds characters that no key has$/,
      );
    },
  );
});

describe("a misbehaving provider", () => {
  const DEADLINE_MS = 400;
  const hasty = () => makeHastyClient({ baseUrl: provider.url, deadlineMs: DEADLINE_MS });
  const jsonHead = { "content-type": "application/json" };
  const notUtf8 = Buffer.from(JSON.stringify(page(["é"])), "latin1");
  const twelveMebibytes = Buffer.alloc(12 * 1024 * 1024, " ");

  const list = () => client.listWindow(WINDOW);
  const read = () => client.getOrder("DO-1");
  const packed = { ...jsonHead, "content-encoding": "gzip" };

  it.each<[string, Step, ask: () => Promise<unknown>, failure?: string]>([
    ["HTML with 200", text(200, "<html>Jane</html>", { "content-type": "text/html" }), list],
    ["JSON without a content type", text(200, JSON.stringify(page([]))), list],
    [
      "JSON that is called something like JSON",
      text(200, "{}", { "content-type": "application/jsonp" }),
      list,
    ],
    ["truncated JSON", text(200, '{"data":[{"customer":"Jane', jsonHead), list],
    ["nothing", text(204, ""), list],
    ["an empty body", text(200, "", jsonHead), list],
    ["bytes that are not UTF-8", text(200, notUtf8, jsonHead), list],
    ["a list without hasMore", json(200, { data: [], limit: 1, offset: 0 }), list],
    ["a list whose data is an object", json(200, { ...page([]), data: {} }), list],
    ["a list that is an array", json(200, []), list],
    ["a list that is null", json(200, null), list],
    ["an order without a reference", json(200, { updatedAt: "2026-11-20T12:00:00Z" }), read],
    ["an order without updatedAt", json(200, { reference: "DO-1" }), read],
    ["an array for an order", json(200, [orderBody()]), read],
    ["a string for an order", json(200, "DO-1"), read],
    // A failure of its own: the caller asks again for less.
    ["a page that is too large", text(200, twelveMebibytes, jsonHead), list, "too_large"],
    [
      "a small body that unpacks to a large one",
      text(200, gzipSync(twelveMebibytes), packed),
      list,
      "too_large",
    ],
  ])(
    "by %s is no answer, at once, and its text is not repeated",
    async (_, step, ask, failure = "unreadable") => {
      provider.script(step);
      const error = await failureOf(ask());
      expect(error).toMatchObject({ failure, retry: "later", status: expect.any(Number) });
      expect(String(error)).not.toContain("Jane");
      expect(provider.requests).toHaveLength(1);
    },
  );

  it("with wrong types in a typed answer is unavailable, and the error names only the fields", async () => {
    provider.script(json(200, { data: [{ id: 7, name: "Jane" }], hasMore: false, request_id: "req_9" }));
    const error = await failureOf(client.listBranches());
    expect(error).toMatchObject({ failure: "unreadable", requestId: "req_9" });
    expect(String(error)).toContain("data.0.id");
    expect(String(error)).not.toContain("Jane");
  });

  it.each([301, 307])(
    "that redirects with %i is not followed, so the key is not sent there",
    async (status) => {
      const elsewhere = await startScriptedProvider();
      elsewhere.script(json(200, page([])));
      provider.script(text(status, "", { location: `${elsewhere.url}/v1/orders` }));
      const error = await failureOf(client.listWindow(WINDOW));
      expect(error).toMatchObject({ failure: "refused", status, retry: "never" });
      expect(elsewhere.requests).toEqual([]);
      expect(provider.requests).toHaveLength(1);
      await elsewhere.close();
    },
  );

  const dribble: Step = (response) => {
    response.writeHead(200, jsonHead);
    const timer = setInterval(() => response.write(" "), 20);
    response.on("close", () => clearInterval(timer));
  };

  it.each<[string, Step]>([
    ["never answers", hang],
    ["sends a body byte by byte", dribble],
  ])("that %s is given up at the deadline, four times", async (_, step) => {
    provider.script(step);
    const startedAtMs = performance.now();
    const error = await failureOf(hasty().listWindow(WINDOW));
    const tookMs = performance.now() - startedAtMs;
    expect(error).toMatchObject({ failure: "timeout", retry: "later" });
    expect(provider.requests).toHaveLength(4);
    expect(tookMs).toBeGreaterThanOrEqual(4 * DEADLINE_MS - 10);
    // Without a deadline, no request would ever end.
    expect(tookMs).toBeLessThan(30_000);
  });

  it.each([
    [401, "key_refused"],
    // Without the provider's code, which the body would hold, no order is said to be gone.
    [404, "unavailable"],
  ])("that refuses with %i and an endless body is classified by its status", async (status, failure) => {
    provider.script((response) => response.writeHead(status, jsonHead).write("{"));
    await expect(hasty().getOrder("DO-1")).rejects.toMatchObject({ failure, status, code: null });
  });

  it("that cuts off an answer, or closes a kept connection, is asked again", async () => {
    const cutOff: Step = (response) => {
      response.writeHead(200, { ...jsonHead, "content-length": "1000" }).write('{"data":');
      setTimeout(() => response.socket?.destroy(), 20);
    };
    provider.script(cutOff, json(200, page([])), hangUp, hangUp, json(200, page([])));
    for (const asked of [2, 5]) {
      expect((await client.listWindow(WINDOW)).elements).toEqual([]);
      expect(provider.requests).toHaveLength(asked);
    }
  });

  it("that is unreachable is unavailable", async () => {
    const gone = await startScriptedProvider();
    await gone.close();
    const error = await failureOf(makeHastyClient({ baseUrl: gone.url }).listWindow(WINDOW));
    expect(error).toMatchObject({ failure: "unavailable", status: null, sent: false });
  });
});

describe("a refusal", () => {
  const write = () => failureOf(client.createOrder(NEW_ORDER));
  it.each<[status: number, code: string | null, failure: string, fix?: RegExp]>([
    [401, "invalid_api_key", "key_refused", /^check the key/],
    [401, null, "key_refused", /^check the key/],
    [401, "order_not_found", "key_refused", /^check the key/],
    [402, "subscription_inactive", "refused", /^pay/],
    [404, "order_not_found", "not_found"],
    // Any web server answers this for a wrong address; only the code means a missing order.
    [404, null, "refused"],
    [422, "constructor", "refused"],
    [408, null, "refused"],
    [302, null, "refused", /DELIVERY_BASE_URL/],
    [503, "order_not_found", "unavailable"],
  ])("by %i %s is %s, with its facts and nothing from the message", async (status, code, failure, fix) => {
    provider.script(json(status, { error: { code, message: "Jane, +31 6 1234" }, request_id: "req_7" }));
    const error = (await write()) as ProviderError;
    const read = status === 302 ? null : "req_7";
    const retry = failure === "unavailable" ? "later" : "never";
    expect(error).toMatchObject({ failure, status, code, requestId: read, retry });
    expect(error.message).not.toMatch(/Jane|1234/);
    expect(error.message).toContain("POST /v1/orders");
    expect(error.fix ?? "").toMatch(fix ?? /^$/);
    expect(provider.requests).toHaveLength(1);
  });

  it.each([404, 410])("of one order by %i is that it is missing only if it says so", async (status) => {
    for (const code of ["not_found", "invalid_api_key"]) {
      provider.script(refusal(status, code));
      expect(await failureOf(client.getOrder("DO-1"))).toMatchObject({
        failure: "unavailable",
        retry: "later",
      });
    }
    provider.script(refusal(status, "order_not_found"));
    expect(await failureOf(client.getOrder("DO-1"))).toMatchObject({ failure: "not_found", status });
    expect(provider.requests).toHaveLength(1);
  });

  it.each([
    null,
    "order_not_found",
    [],
    { error: "order_not_found" },
    { error: { code: 404 } },
    // Text that could contain personal data is neither a code nor an id.
    { error: { code: "Jane Doe, Dam 1" }, request_id: "Jane Doe" },
    { error: { code: "x".repeat(65) }, request_id: "x".repeat(129) },
    { request_id: 7 },
  ])("with the body %j has no code, and no id", async (body) => {
    provider.script(json(422, body));
    expect(await write()).toMatchObject({ failure: "refused", code: null, requestId: null });
  });
});

describe("repeated requests", () => {
  it.each([500, 504])("follow %i for reads", async (status) => {
    provider.script(text(status, "oops"), json(200, page([])));
    expect((await client.listWindow(WINDOW)).elements).toEqual([]);
    expect(provider.requests).toHaveLength(2);
  });

  it("follow 404 for one order without the code that says so", async () => {
    provider.script(refusal(404, "some_code"), single({}));
    await client.getOrder("DO-1");
    expect(provider.requests).toHaveLength(2);
  });

  it("wait longer each time, or as long as they are asked to", async () => {
    const sleeps: number[] = [];
    const clock = { ...systemClock, sleep: async (ms: number) => void sleeps.push(ms) };
    const failing = text(500, "");
    const asking = (seconds: string) => text(503, "", { "retry-after": seconds });
    provider.script(
      failing,
      failing,
      failing,
      json(200, page([])),
      asking("7"),
      json(200, page([])),
      asking("120"),
    );
    const api = makeHastyClient({ baseUrl: provider.url, clock });
    await api.listWindow(WINDOW);
    const halves = sleeps.map((ms, index) => ms / (250 * 2 ** index));
    expect(halves.map((ms) => ms >= 1 && ms <= 2)).toEqual([true, true, true]);
    await api.listWindow(WINDOW);
    expect(sleeps.slice(3)).toEqual([7_000]);
    await expect(api.listWindow(WINDOW)).rejects.toMatchObject({ retry: { afterMs: 120_000 } });
    expect(provider.requests).toHaveLength(7);
  });

  it("never follow an abort, and the caller gets its reason", async () => {
    const control = new AbortController();
    const reason = new Error("shutting down");
    provider.script(hang);
    // A read would be asked for again, and then end by its signal anyway.
    const ask = () => client.cancelOrder("DO-1", { signal: control.signal });
    const asked = ask();
    await expect.poll(() => provider.requests.length).toBe(1);
    control.abort(reason);
    expect(await failureOf(asked)).toBe(reason);
    expect(await failureOf(ask())).toBe(reason);
    expect(provider.requests).toHaveLength(1);
  });

  it("are cancelled by an abort while they wait for their turn", async () => {
    const control = new AbortController();
    const reason = new Error("shutting down");
    provider.script(text(500, ""));
    const patient = makeHastyClient({
      baseUrl: provider.url,
      clock: { ...systemClock, sleep: (_, signal) => systemClock.sleep(60_000, signal) },
    });
    const asked = patient.getOrder("DO-1", { signal: control.signal });
    await expect.poll(() => provider.requests.length).toBe(1);
    control.abort(reason);
    expect(await failureOf(asked)).toBe(reason);
  });

  it("do not follow the failure of a write, whose outcome nobody knows", async () => {
    provider.script(text(500, ""), single());
    await expect(client.createOrder(NEW_ORDER)).rejects.toMatchObject({ failure: "unavailable" });
    expect(provider.requests).toHaveLength(1);
  });
});

describe("429", () => {
  const limited = (headers: Record<string, string>) => refusal(429, "rate_limit_exceeded", headers);
  const spent = '"order-list";r=0;t=1, "sustained";r=150;t=9';
  /** With the spec's limits, and without a hurry. */
  const api = () =>
    makeHastyClient({
      baseUrl: provider.url,
      clock: systemClock,
      budget: makeBudget({ clock: systemClock }),
    });

  it("is followed by the same request after Retry-After, while others of the policy wait, the urgent before it, and other policies go on", async () => {
    const client = api();
    provider.script(limited({ "retry-after": "1", ratelimit: spent }), single(), json(200, page([])));
    const lists = [client.listWindow({ ...WINDOW, limit: 1 }, { priority: "refetch" })];
    for (const [index, priority] of (["backfill", "poll"] as const).entries())
      lists.push(client.listWindow({ ...WINDOW, limit: index + 2 }, { priority }));
    await expect.poll(() => provider.requests.length).toBe(1);
    await client.getOrder("DO-1");
    await Promise.all(lists);
    const asked = provider.requests.map(({ url }) => /limit=\d/.exec(url)?.[0] ?? url);
    expect(asked).toEqual(["limit=1", "/v1/orders/DO-1", "limit=3", "limit=1", "limit=2"]);
    const [first = 0, _other, ...later] = provider.requests.map(({ atMs }) => atMs);
    const gaps = later.map((atMs, index) => atMs - (later[index - 1] ?? first));
    expect(gaps[0]).toBeGreaterThanOrEqual(1_000);
    for (const gap of gaps.slice(1)) expect(gap).toBeGreaterThanOrEqual(500);
  });

  it("is prevented by what a success says to be used up", async () => {
    const client = api();
    provider.script(json(200, page([]), { ratelimit: '"order-list";r=0;t=1' }), json(200, page([])));
    await client.listWindow(WINDOW);
    await client.listWindow(WINDOW);
    const [first, second] = provider.requests.map(({ atMs }) => atMs);
    expect(second! - first!).toBeGreaterThanOrEqual(1_000);
  });

  // Every other form of the header: unit/provider/rateHeaders.
  it("with a dated Retry-After names its delay by the provider's own clock", async () => {
    const headers = { "retry-after": "Fri, 20 Nov 2026 12:00:25 GMT", date: "Fri, 20 Nov 2026 12:00:00 GMT" };
    provider.script(limited({ ...headers, ratelimit: spent }));
    const error = await failureOf(api().listWindow(WINDOW, { attemptsMax: 1 }));
    // The message names no policy; the headers say which one is used up.
    expect(error).toMatchObject({ retry: { afterMs: 25_000 }, policy: "order-list" });
  });

  it("with Retry-After beyond 30 s is the caller's to wait for", async () => {
    const error = { code: "rate_limit_exceeded", message: "order-list exceeded" };
    // The code is also read where it stands by itself.
    for (const body of [{ error }, error]) {
      provider.script(json(429, { ...body, request_id: "req_3" }, { "retry-after": "31" }));
      expect(await failureOf(api().listWindow(WINDOW))).toMatchObject({
        failure: "rate_limited",
        policy: "order-list",
        retry: { afterMs: 31_000 },
        message:
          'GET /v1/orders was refused: rate_limit_exceeded, by "order-list", for 31 s (HTTP 429, request req_3)',
      });
      expect(provider.requests).toHaveLength(1);
    }
  });

  it("is followed by a repeated write after its wait, too, because nothing was done", async () => {
    const sleeps: number[] = [];
    const clock = { ...systemClock, sleep: async (ms: number) => void sleeps.push(ms) };
    provider.script(limited({ "retry-after": "1" }), single({ status: "cancelled" }));
    await makeHastyClient({ baseUrl: provider.url, clock }).cancelOrder("DO-1");
    expect(provider.requests.map(({ method }) => method)).toEqual(["POST", "POST"]);
    expect(sleeps).toEqual([1_000]);
  });
});

it("the provider's clock dates a read no later than its request started", async () => {
  provider.script(json(200, page([]), { date: "Fri, 20 Nov 2026 12:00:00 GMT" }));
  const api = makeHastyClient({ baseUrl: provider.url });
  const { requestedAt } = await api.listWindow(WINDOW);
  expect(requestedAt).toBeLessThanOrEqual(parseInstant("2026-11-20T11:59:59Z"));
  expect(requestedAt).toBeGreaterThan(parseInstant("2026-11-20T11:59:50Z"));
  expect(api.providerClock.isSynchronized()).toBe(true);
});

it("logs and reports no personal data and no key", async () => {
  const lines: string[] = [];
  const logger = logInto((line) => lines.push(line), "trace");
  const api = makeHastyClient({ baseUrl: provider.url, logger });
  provider.script(refusal(422, "address_not_found"));
  const error = (await failureOf(api.createOrder(NEW_ORDER))) as Error;
  provider.script(single());
  await api.getOrder("Jane-1");
  expect(lines).toHaveLength(2);
  expect(`${lines.join("")} ${error.message} ${JSON.stringify(error)}`).not.toMatch(
    /Jane|1234|Dam|dos_live|shop-1/,
  );
  expect(JSON.parse(lines[0]!)).toMatchObject({ route: "/v1/orders", outcome: "address_not_found" });
});
