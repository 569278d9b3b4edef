import { afterAll, expect, it } from "vitest";
import { openTestDatabase } from "../../support/servers/database.ts";
import { insertOrder, orderText } from "../../support/mirror/orders.ts";
import { makeTestApi } from "../../support/mirror/served.ts";
import { ask as send, serve, type TestServer } from "../../support/http/serve.ts";
import { logInto } from "../../support/run/logInto.ts";

const TOKENS = [
  { token: "token-of-live", sourceId: "live" },
  { token: "second-token-of-live", sourceId: "live" },
  { token: "token-of-test", sourceId: "test" },
];

const { database, pool } = await openTestDatabase();
const lines: string[] = [];
const logger = logInto((line) => lines.push(line));
const guarded = await serve(makeTestApi({ pool, apiTokens: TOKENS, logger }));
const open = await serve(makeTestApi({ pool }));
for (const sourceId of ["live", "test"])
  await insertOrder(database.pool, sourceId, orderText({ reference: `of ${sourceId}` }));
afterAll(async () => {
  await guarded.close();
  await open.close();
});

async function ask(server: TestServer, headers: Record<string, string>) {
  const { status, body } = await send(`${server.url}/v1/orders`, { headers });
  const { data, error } = JSON.parse(body) as { data?: { reference: string }[]; error?: { code: string } };
  return data?.map(({ reference }) => reference) ?? [status, error?.code];
}

it("each token reads only its own source", async () => {
  for (const { token, sourceId } of TOKENS)
    expect(await ask(guarded, { Authorization: `Bearer ${token}` })).toEqual([`of ${sourceId}`]);
  const Authorization = "Bearer token-of-live";
  expect(await ask(guarded, { Authorization, "X-Source": "live" })).toEqual(["of live"]);
  expect(await ask(guarded, { Authorization, "X-Source": "test" })).toEqual([422, "unknown_source"]);
});

it("without tokens this machine, and nobody else, reads the source live, or the one it names", async () => {
  expect(await ask(open, {})).toEqual(["of live"]);
  expect(await ask(open, { "X-Source": "test" })).toEqual(["of test"]);
  expect(await ask(open, { "X-Source": "other" })).toEqual([422, "unknown_source"]);
  for (const headers of [{ "X-Forwarded-For": "127.0.0.1" }, { Host: "evil.example" }])
    expect(await ask(open, headers as Record<string, string>)).toEqual([401, "invalid_api_key"]);
});

it("wrong tokens are logged once with their address, and never lock out right ones", async () => {
  const present = (token: string) => ask(guarded, { Authorization: `Bearer ${token}` });
  for (let guess = 0; guess < 60; guess += 1)
    expect(await present(`guess-${guess}`)).toEqual([401, "invalid_api_key"]);
  const refused = { outcome: "unknown", remote_ip: "127.0.0.1", msg: "an API token was refused" };
  expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([expect.objectContaining(refused)]);
  expect(lines.join("")).not.toContain("guess");
  expect(await present("token-of-live")).toEqual(["of live"]);
});
