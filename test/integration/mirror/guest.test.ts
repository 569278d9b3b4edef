import { createServer } from "node:http";
import express, { type RequestHandler } from "express";
import { afterAll, expect, it, onTestFinished } from "vitest";
import { createMirror, type Mirror, type MirrorOptions } from "../../../src/mirror/createMirror.ts";
import { createDatabase, runOnServer, withDatabase } from "../../support/servers/createDatabase.ts";
import { findTestServer, openTestDatabase } from "../../support/servers/database.ts";
import { listenHere, serve } from "../../support/http/serve.ts";
import { LIVE, makeTestSandbox, orderBody } from "../../support/providers/testSandbox.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { makeSigner } from "../../../src/signature/sign.ts";
import { WEBHOOK_SECRET } from "../../support/signing/webhooks.ts";

const { database, pool } = await openTestDatabase();
const sandbox = await makeTestSandbox();
afterAll(() => sandbox.close());
const TOKEN = "a-token-of-the-shop";
const READ = { headers: { authorization: `Bearer ${TOKEN}` } };

const OPTIONS: MirrorOptions = {
  databaseUrl: database.url,
  sources: [
    { sourceId: "live", mode: "live", baseUrl: sandbox.url, apiKey: LIVE, webhookSecrets: [WEBHOOK_SECRET] },
  ],
  apiTokens: [`${TOKEN}@live+write`],
  opsPassword: "a password of the shop",
  writeThrough: true,
};

async function openMirror(options: MirrorOptions): Promise<Mirror> {
  const mirror = await createMirror(options);
  onTestFinished(() => mirror.close());
  return mirror;
}

async function serveShop(...handlers: RequestHandler[]): Promise<string> {
  const server = await serve(...handlers);
  onTestFinished(() => server.close());
  return server.url;
}

const all = ({ webhooks, api, ops, probes }: Mirror): RequestHandler[] => [webhooks, api, ops, probes];

const own: RequestHandler = (request, response) => {
  response.json({ shop: request.method + " " + request.url });
};

it("leaves the routes of its host, which come after it, and answers its own", async () => {
  const mirror = await openMirror(OPTIONS);
  await mirror.start();
  const shop = await serveShop(...all(mirror), own);
  for (const [method, path] of [
    ["GET", "/v1/products"],
    ["POST", "/webhooks/stripe"],
    ["GET", "/metrics"],
    ["GET", "/metrics-report"],
    ["GET", "/livezzz"],
    ["GET", "/v2/orders"],
  ] as const)
    expect(await (await fetch(shop + path, { method })).json()).toEqual({ shop: `${method} ${path}` });
  const statuses = ["/v1/orders", "/ops/orders", "/livez", "/docs", "/openapi.json"].map(
    async (path) => (await fetch(shop + path, { redirect: "manual" })).status,
  );
  expect(await Promise.all(statuses)).toEqual([401, 401, 200, 200, 200]);
});

it("works below a path, reads, writes and the page of the API alike", async () => {
  const mirror = await openMirror(OPTIONS);
  await mirror.start();
  const app = express();
  app.use("/mirror", ...all(mirror));
  const shop = `${await serveShop(app)}/mirror`;
  const body = JSON.stringify(orderBody());
  const headers = { ...READ.headers, "content-type": "application/json" };
  const made = await fetch(`${shop}/v1/orders`, { method: "POST", body, headers });
  expect(made.status).toBe(201);
  const { reference } = (await made.json()) as { reference: string };
  expect((await fetch(`${shop}/v1/orders/${reference}`, READ)).status).toBe(200);
  expect((await fetch(`${shop}/v1/branches`, { method: "POST", ...READ })).status).toBe(405);
  const page = await (await fetch(`${shop}/docs`)).text();
  for (const [, address = ""] of page.matchAll(/(?:href|src)="(?!data:)([^"]+)"/g))
    expect((await fetch(new URL(address, `${shop}/docs`))).status).toBe(200);
});

it("passes on the bytes of express.raw, and refuses a write whose body was parsed before", async () => {
  const mirror = await openMirror(OPTIONS);
  await mirror.start();
  const send = async (parser: RequestHandler) => {
    const shop = await serveShop(parser, ...all(mirror));
    const headers = { ...READ.headers, "content-type": "application/json" };
    return fetch(`${shop}/v1/orders`, { method: "POST", body: JSON.stringify(orderBody()), headers });
  };
  expect((await send(express.raw({ type: () => true }))).status).toBe(201);
  const refused = await send(express.json());
  expect([refused.status, await refused.json()]).toEqual([
    500,
    expect.objectContaining({
      error: { code: "body_already_read", message: expect.stringContaining("before body parsers") as string },
    }),
  ]);
});

it("can be started again after a start that failed, and not with other parts", async () => {
  const name = `guest_${process.pid}`;
  await createDatabase(findTestServer(), name);
  onTestFinished(
    async () => void (await runOnServer(findTestServer(), `drop database ${name} with (force)`)),
  );
  const mirror = await openMirror({ ...OPTIONS, databaseUrl: withDatabase(findTestServer(), name) });
  const shop = await serveShop(...all(mirror));
  const early = await fetch(`${shop}/v1/orders`, READ);
  expect([early.status, early.headers.get("content-type"), await early.json()]).toEqual([
    503,
    "application/json; charset=utf-8",
    expect.objectContaining({
      error: { code: "temporarily_unavailable", message: "The mirror has not started yet." },
    }),
  ]);
  await expect(mirror.start()).rejects.toMatchObject({ name: "ConfigurationError" });
  const [left] = await runOnServer(
    findTestServer(),
    `select count(*)::int as open from pg_stat_activity where datname = '${name}'`,
  );
  expect(left).toEqual({ open: 0 });
  expect((await mirror.migrate()).length).toBeGreaterThan(1);
  await mirror.start();
  expect((await fetch(`${shop}/v1/orders`, READ)).status).toBe(200);
  const unreachable = await openMirror({
    ...OPTIONS,
    databaseUrl: "postgres://h@127.0.0.1:1/d",
  });
  await expect(unreachable.start()).rejects.toMatchObject({ name: "UnavailableError" });
  await expect(unreachable.migrate()).rejects.toMatchObject({ name: "UnavailableError" });
});

it("refuses a second start with other parts, a missing key before anything opens, and a start after its end", async () => {
  const mirror = await openMirror(OPTIONS);
  await Promise.all([mirror.start(), mirror.start({ web: true })]);
  await expect(mirror.start({ worker: true })).rejects.toThrow("The mirror has started with other parts.");
  await mirror.close();
  await expect(mirror.start()).rejects.toThrow("The mirror is closed.");
  const keyless = await openMirror({
    ...OPTIONS,
    writeThrough: false,
    sources: [{ sourceId: "live", mode: "live", baseUrl: sandbox.url }],
  });
  await expect(keyless.start({ poller: true })).rejects.toMatchObject({
    message: "The provider key is missing for live.",
    fix: expect.stringContaining("apiKey") as string,
  });
});

it("receives what a framework without Node's requests has read", async () => {
  const mirror = await openMirror(OPTIONS);
  const body = JSON.stringify({ id: "evt_guest", type: "order.created", data: {} });
  const sign = makeSigner({ scheme: loadScheme("standard-webhooks"), secret: WEBHOOK_SECRET });
  const signature = sign({
    id: "evt_guest",
    body: Buffer.from(body),
    nowSeconds: Math.floor(Date.now() / 1_000),
  });
  const headers = { "content-type": "application/json", ...signature };
  expect(await mirror.receive({ source: "live", headers, body })).toMatchObject({ status: 503 });
  await mirror.start();
  const server = createServer((request, response) => {
    void (async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const source = request.url?.split("/").at(-1) ?? "";
      const call = { source, headers: request.headers, body: Buffer.concat(chunks) };
      const answer = await mirror.receive(call);
      response.writeHead(answer.status, answer.headers).end(answer.body);
    })();
  });
  const framework = await listenHere(server);
  onTestFinished(() => framework.close());
  const post = (source: string, sent: string) =>
    fetch(`${framework.url}/hooks/${source}`, { method: "POST", headers, body: sent });
  expect((await post("live", body)).status).toBe(200);
  expect((await post("live", `${body} `)).status).toBe(401);
  expect((await post("other", body)).status).toBe(404);
  expect(await mirror.receive({ source: "live", headers: new Headers(headers), body })).toMatchObject({
    status: 200,
  });
  const { rows } = await pool.query("select event_id from mirror.inbox");
  expect(rows).toEqual([{ event_id: "evt_guest" }]);
});
