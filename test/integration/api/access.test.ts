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
  await insertOrder(database.pool, sourceId, orderText({ reference: `of ${sourceId}` }));
afterAll(async () => {
  await guarded.close();
  await open.close();
});

async function ask(server: TestServer, headers: Record<string, string>) {
  const response = await fetch(`${server.url}/v1/orders`, { headers });
  const body = (await response.json()) as { data?: { reference: string }[]; error?: { code: string } };
  return body.data?.map(({ reference }) => reference) ?? [response.status, body.error?.code];
}

describe("with API tokens", () => {
  it("each reads only its own source", async () => {
    for (const { token, sourceId } of TOKENS)
      expect(await ask(guarded, { Authorization: `Bearer ${token}` })).toEqual([`of ${sourceId}`]);
    const Authorization = "Bearer token-of-live";
    expect(await ask(guarded, { Authorization, "X-Source": "live" })).toEqual(["of live"]);
    expect(await ask(guarded, { Authorization, "X-Source": "test" })).toEqual([422, "unknown_source"]);
  });

  it("nobody else may read, also on this machine", async () => {
    expect(await ask(guarded, {})).toEqual([401, "invalid_api_key"]);
  });
});

describe("without API tokens", () => {
  it("lets this machine read the source live, or the one it names", async () => {
    expect(await ask(open, {})).toEqual(["of live"]);
    expect(await ask(open, { "X-Source": "test" })).toEqual(["of test"]);
    expect(await ask(open, { "X-Source": "other" })).toEqual([422, "unknown_source"]);
  });

  it("refuses requests through a proxy or by a name that is not this machine's", async () => {
    expect(await ask(open, { "X-Forwarded-For": "127.0.0.1" })).toEqual([401, "invalid_api_key"]);
    const named = await askExactly(`${open.url}/v1/orders`, { headers: { Host: "evil.example" } });
    expect(named.status).toBe(401);
  });
});

it("wrong tokens are logged once with their address, and never lock out right ones", async () => {
  const lines: string[] = [];
  const logger = logInto((line) => lines.push(line));
  const server = await serve(makeTestApi({ pool, apiTokens: TOKENS, logger }));
  const present = (token: string) => ask(server, { Authorization: `Bearer ${token}` });
  for (let guess = 0; guess < 60; guess += 1)
    expect(await present(`guess-${guess}`)).toEqual([401, "invalid_api_key"]);
  expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
    expect.objectContaining({
      outcome: "unknown",
      remote_ip: "127.0.0.1",
      msg: "an API token was refused",
    }),
  ]);
  expect(lines.join("")).not.toContain("guess");
  expect(await present("token-of-live")).toEqual(["of live"]);
  await server.close();
});
