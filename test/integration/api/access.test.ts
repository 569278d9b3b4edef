import { afterAll, describe, expect, it } from "vitest";
import { openTestDatabase } from "../../support/servers/database.ts";
import { insertOrder, orderText } from "../../support/mirror/orders.ts";
import { makeTestApi } from "../../support/mirror/served.ts";
import { ask as askExactly, serve, type TestServer } from "../../support/http/serve.ts";
import { logInto } from "../../support/run/logInto.ts";

const TOKENS = [
  { token: "token-of-live", sourceId: "live" },
  { token: "second-token-of-live", sourceId: "live" },
  { token: "token-of-test", sourceId: "test" },
];

const { database, pool } = await openTestDatabase();
const guarded = await serve(makeTestApi({ pool, apiTokens: TOKENS }));
const open = await serve(makeTestApi({ pool }));
for (const sourceId of ["live", "test"])
  for (const reference of ["BOTH", sourceId.toUpperCase()])
    await insertOrder(
      database.pool,
      sourceId,
      orderText({ reference, externalOrderId: `shop-${reference}`, status: `of ${sourceId}` }),
    );
afterAll(async () => {
  await guarded.close();
  await open.close();
});

async function ask(server: TestServer, headers: Record<string, string>, path = "/v1/orders") {
  const response = await fetch(server.url + path, { headers });
  const body = (await response.json()) as {
    status?: string;
    data?: { reference: string; status: string }[];
    error?: { code: string };
  };
  return {
    status: response.status,
    code: body.error?.code,
    orders: body.data?.map((order) => `${order.reference} ${order.status}`),
    orderStatus: body.status,
  };
}

/** The order that both sources have, and the source's own. */
const ordersOf = (sourceId: string) => [`BOTH of ${sourceId}`, `${sourceId.toUpperCase()} of ${sourceId}`];

describe("with API tokens", () => {
  it("each token reads only its own source", async () => {
    for (const { token, sourceId } of TOKENS) {
      const Authorization = `Bearer ${token}`;
      expect(await ask(guarded, { Authorization })).toMatchObject({
        status: 200,
        orders: ordersOf(sourceId),
      });
      for (const name of ["BOTH", "shop-BOTH"])
        expect(await ask(guarded, { Authorization }, `/v1/orders/${name}`)).toMatchObject({
          orderStatus: `of ${sourceId}`,
        });
      const other = sourceId === "live" ? "TEST" : "LIVE";
      for (const name of [other, `shop-${other}`])
        expect(await ask(guarded, { Authorization }, `/v1/orders/${name}`)).toMatchObject({
          code: "order_not_found",
        });
    }
  });

  it("lets nobody else read, also on this machine", async () => {
    expect(await ask(guarded, {})).toMatchObject({ status: 401, code: "invalid_api_key" });
  });

  it("refuses a request for another source than the token's", async () => {
    const Authorization = "Bearer token-of-live";
    expect(await ask(guarded, { Authorization, "X-Source": "live" })).toMatchObject({ status: 200 });
    expect(await ask(guarded, { Authorization, "X-Source": "test" })).toMatchObject({
      status: 422,
      code: "unknown_source",
    });
  });
});

describe("without API tokens", () => {
  it("lets this machine read the source live, or the one it names", async () => {
    expect(await ask(open, {})).toMatchObject({ orders: ordersOf("live") });
    expect(await ask(open, { "X-Source": "test" })).toMatchObject({ orders: ordersOf("test") });
    expect(await ask(open, { "X-Source": "other" })).toMatchObject({ status: 422, code: "unknown_source" });
  });

  it("refuses requests through a proxy or by a name that is not this machine's", async () => {
    expect(await ask(open, { "X-Forwarded-For": "127.0.0.1" })).toMatchObject({ status: 401 });
    const named = await askExactly(`${open.url}/v1/orders`, { headers: { Host: "evil.example" } });
    expect(named.status).toBe(401);
  });
});

it("wrong tokens are logged once with their address, and never lock out right ones", async () => {
  const lines: string[] = [];
  const logger = logInto((line) => lines.push(line));
  const server = await serve(makeTestApi({ pool, apiTokens: TOKENS, logger }));
  const status = async (token: string) => (await ask(server, { Authorization: `Bearer ${token}` })).status;
  for (let guess = 0; guess < 60; guess += 1) expect(await status(`guess-${guess}`)).toBe(401);
  expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
    expect.objectContaining({
      outcome: "unknown",
      remote_ip: "127.0.0.1",
      msg: "an API token was refused",
    }),
  ]);
  expect(lines.join("")).not.toContain("guess");
  expect(await status("token-of-live")).toBe(200);
  await server.close();
});
