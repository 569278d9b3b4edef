import { afterAll, describe, expect, it } from "vitest";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import type { RateRule } from "../../../src/domain/window/rate.ts";
import { makeBudget, type Budget, type PolicyName } from "../../../src/provider/budget.ts";
import { makeForward } from "../../../src/api/forward.ts";
import type { Pool } from "../../../src/database/database.ts";
import { systemClock, type Clock } from "../../../src/process/clock.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { makeTestApi } from "../../support/mirror/served.ts";
import {
  hang,
  json,
  orderBody,
  refusal,
  startScriptedProvider,
  text,
} from "../../support/providers/scriptedProvider.ts";
import { makeSimulatedClock } from "../../support/virtual/simulatedClock.ts";
import { ask as send, serve, type TestServer } from "../../support/http/serve.ts";

const WRITER = "token-that-may-write";
const READER = "token-that-may-read";
const KEY = "dos_live_source";
const apiTokens = [
  { token: WRITER, sourceId: "live", mayWrite: true },
  { token: READER, sourceId: "live" },
];

const { database } = await openTestDatabase();

await addSource(database.pool, "live");
const plenty = { requestsMax: 100_000, windowMs: 1_000 };
const budgetOf = (limits: Partial<Record<PolicyName, RateRule>>, clock: Clock = systemClock): Budget => {
  const all = { sustained: plenty, "order-list": plenty, geocoding: plenty, ...limits };
  return makeBudget({ clock, limits: all });
};

/** Counts what waits for its turn or its answer. */
function countTurns(budget: Budget): Budget & { turns: number } {
  const counted: Budget & { turns: number } = {
    turns: 0,
    run(turn, send) {
      counted.turns += 1;
      return budget.run(turn, send).finally(() => (counted.turns -= 1));
    },
  };
  return counted;
}

const provider = await startScriptedProvider();
const mirror = await startMirror();
/** Gives up soon, for answers that never come. */
const hasty = await startMirror({ deadlineMs: 500 });
afterAll(async () => {
  await mirror.close();
  await hasty.close();
  await provider.close();
});

function startMirror(
  change: { budget?: Budget; applyPool?: Pool; deadlineMs?: number; baseUrl?: string; tokens?: [] } = {},
): Promise<TestServer> {
  const { budget = budgetOf({}), applyPool = database.pool, deadlineMs = 60_000 } = change;
  const { baseUrl = provider.url, tokens = apiTokens } = change;
  const forward = makeForward({
    baseUrl,
    apiKey: KEY,
    budget,
    clock: systemClock,
    logger: silentLogger,
    deadlineMs,
  });
  const { applyReads } = makeLiveApply(applyPool);
  const writes = { forward: () => forward, applyReads, marginSeconds: 300 };
  return serve(makeTestApi({ pool: database.pool, apiTokens: tokens, writes }));
}

interface Asked {
  readonly token?: string;
  readonly body?: string;
  readonly server?: TestServer;
  readonly signal?: AbortSignal;
}

async function ask(
  method: string,
  path: string,
  { token = WRITER, body, server = mirror, signal }: Asked = {},
) {
  const response = await fetch(server.url + path, {
    method,
    headers: { authorization: `Bearer ${token}` },
    ...(body === undefined ? {} : { body }),
    ...(signal === undefined ? {} : { signal }),
  });
  const answer = await response.text();
  const { error } = JSON.parse(answer || "{}") as { error?: { code: string; message: string } };
  return { status: response.status, headers: response.headers, text: answer, error };
}

const create = () => JSON.stringify({ branch: "ams" });
const asked = () => provider.requests.map(({ method, url }) => `${method} ${url}`);

describe("a write", () => {
  it("is forwarded byte for byte with the source's own key, and answered as by the provider once the mirror has it", async () => {
    const answer = `{"reference":"DO-W1", "updatedAt":"2026-11-20T12:00:00Z","status":"created","n":12345678901234567890,"request_id":"req_theirs"}`;
    provider.script(
      text(201, answer, {
        "content-type": "application/json",
        "ratelimit-policy": '"sustained";q=200;w=10',
        ratelimit: '"sustained";r=150;t=3',
        "service-subscription-state": "past_due",
        "set-cookie": "theirs=1",
      }),
    );
    const body = `{ "branch":"ams","big":12345678901234567890 }`;
    const given = await ask("POST", "/v1/orders?a=%2F", { body });
    expect(given).toMatchObject({ status: 201, text: answer });
    expect(given.headers.get("ratelimit")).toBe('"sustained";r=150;t=3');
    expect(given.headers.get("service-subscription-state")).toBe("past_due");
    expect(given.headers.get("set-cookie")).toBeNull();
    expect(given.headers.get("cache-control")).toBe("no-store");
    const { rows } = await database.pool.query(
      "select via, verdict, status from mirror.history where reference = 'DO-W1'",
    );
    expect(rows).toEqual([{ via: "write", verdict: "applied", status: "created" }]);
    const [sent] = provider.requests;
    expect(sent).toMatchObject({ method: "POST", url: "/v1/orders?a=%2F", body });
    expect(sent?.headers).toMatchObject({
      authorization: `Bearer ${KEY}`,
      "content-type": "application/json",
    });
  });

  it("that the mirror cannot store now is answered and reports that", async () => {
    const away = { connect: refuse, query: refuse } as unknown as Pool;
    const server = await startMirror({ applyPool: away });
    provider.script(json(201, orderBody({ reference: "DO-LATER" })));
    const given = await ask("POST", "/v1/orders", { body: create(), server });
    expect([given.status, given.headers.get("x-mirrored")]).toEqual([201, "later"]);
    await server.close();
  });

  it("is refused beyond 1 MiB, and not sent", async () => {
    provider.script(json(201, orderBody()));
    const body = (length: number) => JSON.stringify({ a: "x".repeat(length - 8) });
    expect(await ask("POST", "/v1/orders", { body: body(1_048_577) })).toMatchObject({
      status: 413,
      error: { code: "payload_too_large" },
    });
    expect(asked()).toEqual([]);
    expect(await ask("POST", "/v1/orders", { body: body(1_048_576) })).toMatchObject({ status: 201 });
  });
});

function refuse(): Promise<never> {
  return Promise.reject(Object.assign(new Error("away"), { code: "ECONNREFUSED" }));
}

describe("the right to write", () => {
  it.each([
    ["a token without write access", { token: READER }, 403, "write_not_allowed"],
    ["an unknown token", { token: "nobody" }, 401, "invalid_api_key"],
    // A page in a browser on this machine could order couriers.
    ["anybody without tokens", { server: () => startMirror({ tokens: [] }) }, 403, "write_not_allowed"],
    [
      "a writer while write-through is off",
      { server: () => serve(makeTestApi({ pool: database.pool, apiTokens })) },
      405,
      "method_not_allowed",
    ],
  ] as const)("is not that of %s", async (_, given, status, code) => {
    const server = "server" in given ? await given.server() : mirror;
    const token = "token" in given ? given.token : WRITER;
    provider.script(json(201, orderBody()));
    expect(await ask("POST", "/v1/orders", { token, server, body: create() })).toMatchObject({
      status,
      error: { code },
    });
    expect(asked()).toEqual([]);
    if (server !== mirror) await server.close();
  });

  it("does not reach keys, webhook endpoints or anything else outside the contract, however it is written", async () => {
    provider.script(json(200, {}));
    const options = { method: "POST", headers: { authorization: `Bearer ${WRITER}` } };
    for (const path of [
      "/v1/../_sandbox/seed",
      "/v1/%2e%2e/_sandbox/seed",
      "/v1/x/..\\..\\..\\_sandbox",
      "/v1/..%2f..%2fadmin/keys",
      "/v1/..;/admin",
      "/v1/..%5cadmin",
      "/v1/orders/..%2f..%2fkeys/cancel",
      "/v1/orders/a%5c..%5cb/cancel",
      "/v1/orders/a;b/cancel",
      "/v1/orders/%252e%252e/cancel",
      "/v1/orders/%00/cancel",
      "/v1/orders/%zz/cancel",
      "/v1/orders//cancel",
      "/v1/keys",
      "/v1/webhooks",
      "/v1/webhook-endpoints/1",
      "/v1/orders/DO-1/refund",
    ]) {
      const { status } = await send(mirror.url + path, options);
      expect([path, status]).toEqual([path, 404]);
    }
    expect(await ask("DELETE", "/v1/orders/DO-1")).toMatchObject({ status: 405 });
    expect(asked()).toEqual([]);
  });
});

describe("a creation that is not carried out, or perhaps not", () => {
  it("is answered in the provider's own words, if it has any", async () => {
    // Of its own, as its rates are then used up.
    const server = await startMirror();
    for (const [status, code] of [
      [422, "address_ambiguous"],
      [429, "rate_limit_exceeded"],
    ] as const) {
      provider.script(refusal(status, code, { "retry-after": "3600" }));
      const given = await ask("POST", "/v1/orders", { body: create(), server });
      expect(given).toMatchObject({ status, error: { code, message: `${code}: Jane` } });
      expect([given.headers.get("retry-after"), given.text]).toEqual([
        "3600",
        expect.stringContaining("req_refused"),
      ]);
      expect(asked()).toHaveLength(1);
    }
    await server.close();
  });

  const unknown = "look for the order, by externalOrderId if it has one, before sending it again.";
  it.each([
    // The provider's 401 would say that the caller's own token is wrong.
    ["a refusal of our key", refusal(401, "invalid_api_key"), 502, "source_key_refused", "not accept"],
    ["nothing in time", hang, 504, "provider_timeout", unknown],
    [
      "a redirect",
      text(302, "", { location: "https://elsewhere.example/" }),
      502,
      "provider_unavailable",
      "",
    ],
    ["no JSON", text(200, "<html>", { "content-type": "text/html" }), 502, "provider_unavailable", unknown],
    ["a failure without a body", text(500, ""), 502, "provider_unavailable", unknown],
  ])("is sent once, and its caller decides on the rest, after %s", async (_, step, status, code, message) => {
    provider.script(step, json(201, orderBody()));
    const server = step === hang ? hasty : mirror;
    expect(await ask("POST", "/v1/orders", { body: create(), server })).toMatchObject({
      status,
      error: { code, message: expect.stringContaining(message) as string },
    });
    expect(asked()).toEqual(["POST /v1/orders"]);
  });

  it.each(["/v1/orders/quote", "/v1/addresses/validate"])(
    "is sent again where it would change nothing: %s",
    async (path) => {
      provider.script(text(500, ""), json(200, { request_id: "r" }));
      expect(await ask("POST", path, { body: "{}" })).toMatchObject({ status: 200 });
      expect(asked()).toHaveLength(2);
    },
  );

  it("has not happened when nobody listens at the provider's address", async () => {
    const server = await startMirror({ baseUrl: `http://127.0.0.1:${await findFreePort()}` });
    const { status, error } = await ask("POST", "/v1/orders", { body: create(), server });
    expect([status, error?.code]).toEqual([502, "provider_unavailable"]);
    expect(error?.message).toMatch(/nothing was sent/);
    expect(error?.message).not.toMatch(/unknown/);
    await server.close();
  });

  it("is completed once it was sent, even when its caller has disconnected", async () => {
    let answer: () => void = () => undefined;
    const made = json(201, { ...orderBody({ reference: "DO-GONE" }), request_id: "r" });
    provider.script((response, request) => (answer = () => made(response, request)));
    const leaving = new AbortController();
    const left = ask("POST", "/v1/orders", { body: create(), signal: leaving.signal });
    await expect.poll(asked).toHaveLength(1);
    leaving.abort();
    await expect(left).rejects.toThrow(/abort/);
    answer();
    await expect.poll(async () => (await ask("GET", "/v1/orders/DO-GONE")).status).toBe(200);
  });
});

describe("the provider's rates", () => {
  const one = { requestsMax: 1, windowMs: 3_600_000 };

  it("are kept: a request with too long a wait is refused in the provider's form and not sent", async () => {
    const server = await startMirror({ budget: budgetOf({ geocoding: one }) });
    provider.script(json(201, orderBody()));
    expect(await ask("POST", "/v1/orders", { body: create(), server })).toMatchObject({ status: 201 });
    const refused = await ask("POST", "/v1/orders/quote", { body: create(), server });
    expect(refused).toMatchObject({ status: 429, error: { code: "rate_limit_exceeded" } });
    expect(refused.error?.message).toContain("geocoding");
    expect(refused.headers.get("retry-after")).toBe("5");
    expect(asked()).toEqual(["POST /v1/orders"]);
    expect(await ask("PATCH", "/v1/orders/DO-1", { body: "{}", server })).toMatchObject({ status: 201 });
    await server.close();
  });

  it("let a request wait briefly, and drop it when its caller disconnects before its turn", async () => {
    const clock = makeSimulatedClock();
    const budget = countTurns(budgetOf({ sustained: { requestsMax: 1, windowMs: 1_000 } }, clock));
    const server = await startMirror({ budget });
    provider.script(json(200, orderBody()));
    const send = (name: string, signal?: AbortSignal) =>
      ask("PATCH", `/v1/orders/${name}`, { body: "{}", server, ...(signal && { signal }) });
    await send("DO-FIRST");
    const leaving = new AbortController();
    const left = send("DO-LEFT", leaving.signal);
    await expect.poll(() => budget.turns).toBe(1);
    const waiting = send("DO-WAITS");
    await expect.poll(() => budget.turns).toBe(2);
    leaving.abort();
    await expect(left).rejects.toThrow(/abort/);
    await expect.poll(() => budget.turns).toBe(1);
    await clock.runUntil(60_000);
    expect(await waiting).toMatchObject({ status: 200 });
    expect(asked()).toEqual(["PATCH /v1/orders/DO-FIRST", "PATCH /v1/orders/DO-WAITS"]);
    await server.close();
  });
});
