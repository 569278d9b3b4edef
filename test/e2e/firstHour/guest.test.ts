import { spawn } from "node:child_process";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import express5 from "express";
import { afterAll, afterEach, describe, expect, it, onTestFinished } from "vitest";
import type * as Library from "../../../src/mirror/createMirror.ts";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { makeSigner } from "../../../src/signature/sign.ts";
import { logIn, listenHere } from "../../support/http/serve.ts";
import { installPacked, ROOT, stopPrograms, watchProgram } from "../../support/programs/program.ts";
import { LIVE, makeTestSandbox, orderBody } from "../../support/providers/testSandbox.ts";
import { makeEmptyDatabase, openTestDatabase } from "../../support/servers/database.ts";
import { sendEvent, WEBHOOK_SECRET } from "../../support/signing/signing.ts";

// The package, as it is published, in programs of others: what it takes of their addresses, bodies and processes.

const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-guest-"));
await installPacked(folder, ["express", "fastify"]);
const { resolve } = createRequire(path.join(folder, "program.js"));
const { createMirror } = (await import(pathToFileURL(resolve("order-mirror")).href)) as typeof Library;
/** No types are published under this name; of what is used here, it has those of its successor. */
const require = createRequire(import.meta.url);
const express4 = require("express4") as typeof express5;

const { database, pool } = await openTestDatabase();
const sandbox = await makeTestSandbox();
const TOKEN = "a-token-of-the-shop";
const PASSWORD = "a password of the shop";
const READ = { headers: { authorization: `Bearer ${TOKEN}` } };
const WRITE = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };

const OPTIONS: Library.MirrorOptions = {
  databaseUrl: database.url,
  sources: [
    { sourceId: "live", mode: "live", baseUrl: sandbox.url, apiKey: LIVE, webhookSecrets: [WEBHOOK_SECRET] },
  ],
  apiTokens: [`${TOKEN}@live+write`],
  opsPassword: PASSWORD,
  writeThrough: true,
};
const mirror = await createMirror(OPTIONS);
await mirror.start();
afterEach(stopPrograms);
afterAll(async () => {
  await mirror.close();
  await sandbox.close();
  await rm(folder, { recursive: true, force: true });
});

async function openMirror(options: Library.MirrorOptions): Promise<Library.Mirror> {
  const opened = await createMirror(options);
  onTestFinished(() => opened.close());
  return opened;
}

type Serve = (request: IncomingMessage, response: ServerResponse) => void;

async function serveShop(shop: Serve): Promise<string> {
  const server = await listenHere(createServer(shop));
  onTestFinished(() => server.close());
  return server.url;
}

const all = ({ webhooks, api, ops, probes }: Library.Mirror) => [webhooks, api, ops, probes];

/** The shop's own route for everything, behind the mirror. */
const own: Library.Handler = ({ method, url }, response) => {
  response.setHeader("content-type", "application/json").end(JSON.stringify({ shop: `${method} ${url}` }));
};

const create = (base: string) =>
  fetch(`${base}/v1/orders`, { method: "POST", headers: WRITE, body: JSON.stringify(orderBody()) });

/** Hands a request from one handler to the next, as a framework does. */
function chain([first, ...others]: readonly Library.Handler[]): Serve {
  return (request, response) => first?.(request, response, () => chain(others)(request, response));
}

const EXPRESS = [
  ["Express 4", express4],
  ["Express 5", express5],
] as const;
const HOSTS = [
  ["plain http", chain],
  ...EXPRESS.map(
    ([name, express]) =>
      [name, (handlers: readonly Library.Handler[]): Serve => express().use(...handlers)] as const,
  ),
] as const;

describe.each(HOSTS)("mounted in %s", (_name, mount) => {
  it("leaves the routes of its host, which come after it, and answers its own", async () => {
    const shop = await serveShop(mount([...all(mirror), own]));
    for (const [method, place] of [
      ["GET", "/v1/products"],
      ["POST", "/webhooks/stripe"],
      ["GET", "/metrics"],
      ["GET", "/metrics-report"],
      ["GET", "/livezzz"],
      ["GET", "/v2/orders"],
    ] as const)
      expect(await (await fetch(shop + place, { method })).json()).toEqual({ shop: `${method} ${place}` });
    const statuses = ["/v1/orders", "/ops/orders", "/livez", "/docs", "/openapi.json"].map(
      async (place) => (await fetch(shop + place, { redirect: "manual" })).status,
    );
    expect(await Promise.all(statuses)).toEqual([401, 401, 200, 200, 200]);
    const made = await create(shop);
    expect(made.status).toBe(201);
  });
});

describe("below a path", () => {
  const open = async (express: typeof express5) => {
    const app = express();
    app.use("/mirror", ...all(mirror));
    return `${await serveShop(app)}/mirror`;
  };

  it.each(EXPRESS)(
    "in %s reads, writes, receives, describes itself and redirects",
    async (_name, express) => {
      const base = await open(express);
      const asked = await fetch(`${base}/ops/walks`, {
        redirect: "manual",
        headers: { accept: "text/html" },
      });
      expect(asked.headers.get("location")).toBe("/mirror/ops/login?next=%2Fops%2Fwalks");
      const made = await create(base);
      expect(made.status).toBe(201);
      const { reference } = (await made.json()) as { reference: string };
      expect((await fetch(`${base}/v1/orders/${reference}`, READ)).status).toBe(200);
      expect((await fetch(`${base}/v1/branches`, { method: "POST", ...READ })).status).toBe(405);
      expect(
        await sendEvent(`${base}/webhooks/live`, { id: `evt_${reference}`, body: Buffer.from("{}") }),
      ).toBe(200);
      const page = await (await fetch(`${base}/docs`)).text();
      for (const [, address = ""] of page.matchAll(/(?:href|src)="(?!data:)([^"]+)"/g))
        expect((await fetch(new URL(address, `${base}/docs`))).status).toBe(200);
    },
  );

  it("has pages whose every link, form and redirect stays below it", async () => {
    const base = await open(express5);
    const headers = { ...(await logIn(base, PASSWORD)), accept: "text/html" };
    const body = new URLSearchParams({ password: PASSWORD, next: "/ops/walks" });
    const entered = await fetch(`${base}/ops/login`, { method: "POST", body, redirect: "manual" });
    expect(entered.headers.get("location")).toBe("/mirror/ops/walks");
    const waiting = [`${base}/ops/start`, `${base}/ops/queues`];
    const seen = new Set<string>();
    for (let place = waiting.pop(); place !== undefined; place = waiting.pop()) {
      // One look at each page: its filters lead to itself.
      if (seen.has(place.replace(/[?#].*/, ""))) continue;
      seen.add(place.replace(/[?#].*/, ""));
      const answer = await fetch(place, { headers });
      expect([place, answer.status]).toEqual([place, 200]);
      expect(answer.url).toMatch(base);
      if (!answer.headers.get("content-type")?.startsWith("text/html")) continue;
      const page = await answer.text();
      const [, home = answer.url] = /<base href="([^"]+)"/.exec(page) ?? [];
      for (const [, name, address = ""] of page.matchAll(/ (href|src|action)="(?!data:|https?:)([^"]*)"/g)) {
        const target = new URL(address.replaceAll("&amp;", "&"), new URL(home, answer.url));
        expect([place, target.href]).toEqual([place, expect.stringMatching(`^${base}/`)]);
        if (name !== "action" && !place.includes("/ops/queues")) waiting.push(target.href);
      }
    }
    expect(seen.size).toBeGreaterThan(20);
    const pressed = await fetch(`${base}/ops/resume`, {
      method: "POST",
      body: new URLSearchParams({ source: "live" }),
      redirect: "manual",
      headers: { ...headers, origin: new URL(base).origin, referer: `${base}/ops/sources/live?x=1` },
    });
    expect([pressed.status, pressed.headers.get("location")]).toEqual([
      303,
      expect.stringMatching(/^\/mirror\/ops\/sources\/live\?x=1&did=/),
    ]);
  });
});

describe.each(EXPRESS)("behind a body parser of %s", (_name, express) => {
  it("takes the bytes of express.raw, and refuses a body that was parsed before", async () => {
    const send = async (parser: ReturnType<typeof express.raw>, place: string) => {
      const shop = await serveShop(express().use(parser, ...all(mirror)));
      const body = JSON.stringify(orderBody());
      return fetch(shop + place, { method: "POST", body, headers: WRITE });
    };
    const raw = express.raw({ type: () => true });
    expect((await send(raw, "/v1/orders")).status).toBe(201);
    // The bytes were there to be verified, and nobody had signed them.
    expect((await send(raw, "/webhooks/live")).status).toBe(401);
    const refused = await send(express.json(), "/v1/orders");
    expect([refused.status, await refused.json()]).toEqual([
      500,
      expect.objectContaining({
        error: {
          code: "body_already_read",
          message: expect.stringContaining("before body parsers") as string,
        },
      }),
    ]);
    const event = await send(express.json(), "/webhooks/live");
    expect([event.status, await event.text()]).toEqual([
      500,
      expect.stringContaining("Mount the mirror before body parsers"),
    ]);
  });
});

it("can be started again after a start that failed, and not with other parts", async () => {
  const { url, query } = await makeEmptyDatabase();
  const early = await openMirror({ ...OPTIONS, databaseUrl: url });
  const shop = await serveShop(chain(all(early)));
  const answer = await fetch(`${shop}/v1/orders`, READ);
  expect([answer.status, answer.headers.get("content-type"), await answer.json()]).toEqual([
    503,
    "application/json; charset=utf-8",
    expect.objectContaining({
      error: { code: "temporarily_unavailable", message: "The mirror has not started yet." },
    }),
  ]);
  await expect(early.start()).rejects.toMatchObject({ name: "ConfigurationError" });
  const open = "select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
  expect(await query(open)).toEqual([]);
  expect((await early.migrate()).length).toBeGreaterThan(1);
  await early.start();
  expect((await fetch(`${shop}/v1/orders`, READ)).status).toBe(200);
  const unreachable = await openMirror({
    ...OPTIONS,
    databaseUrl: "postgres://h@127.0.0.1:1/d",
  });
  await expect(unreachable.start()).rejects.toMatchObject({ name: "UnavailableError" });
  await expect(unreachable.migrate()).rejects.toMatchObject({ name: "UnavailableError" });
});

it("refuses a second start with other parts, a missing key before anything opens, and a start after its end, or during it", async () => {
  const once = await openMirror(OPTIONS);
  await Promise.all([once.start(), once.start({ web: true })]);
  await expect(once.start({ worker: true })).rejects.toThrow("The mirror has started with other parts.");
  const shop = await serveShop(chain(all(once)));
  expect((await fetch(`${shop}/v1/orders`, READ)).status).toBe(200);
  await once.close();
  await expect(once.start()).rejects.toThrow("The mirror is closed.");
  const late = await fetch(`${shop}/v1/orders`, READ);
  expect([late.status, await late.text()]).toEqual([503, expect.stringContaining("The mirror is closed.")]);
  const given = await openMirror(OPTIONS);
  const [up] = await Promise.allSettled([given.start(), given.close()]);
  expect(up).toMatchObject({ reason: { message: "The mirror was closed while it started." } });
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

const nowSeconds = () => Math.floor(Date.now() / 1_000);

it("receives what a framework without Node's requests has read", async () => {
  const body = JSON.stringify({ id: "evt_guest", type: "order.created", data: {} });
  const sign = makeSigner({ secrets: [WEBHOOK_SECRET] });
  const signature = sign({ id: "evt_guest", body: Buffer.from(body), nowSeconds: nowSeconds() });
  const headers = { "content-type": "application/json", ...signature };
  const unstarted = await openMirror(OPTIONS);
  expect(await unstarted.receive({ source: "live", headers, body })).toMatchObject({ status: 503 });
  const receive = async (source: string, text: string, sent: Headers | typeof headers | null = headers) =>
    (await mirror.receive({ source, headers: sent, body: text })).status;
  expect(await receive("live", body)).toBe(200);
  expect(await receive("live", `${body} `)).toBe(401);
  expect(await receive("other", body)).toBe(404);
  expect(await receive("live", body, new Headers(headers))).toBe(200);
  expect(await receive("live", body, null)).toBe(415);
  const { rows } = await pool.query("select event_id from mirror.inbox where event_id = 'evt_guest'");
  expect(rows).toEqual([{ event_id: "evt_guest" }]);
});

describe("the programs of docs/library.md", async () => {
  const page = await readFile(path.join(ROOT, "docs/library.md"), "utf8");
  const blocks = [...page.matchAll(/```js\n([^]*?)```/g)].map(([, block = ""]) => block);
  const [whole = "", plain, next, withFastify, closing] = blocks;
  const [setUp = ""] = whole.split("const app = ");
  const started = "await mirror.start({ worker: true, poller: true });";

  /** Runs a program of the page with values in the place of those that it leaves to its reader. */
  async function runProgram(name: string, parts: readonly (string | undefined)[]) {
    const port = await findFreePort();
    const values = [
      ["postgres://shop:…@db/shop", database.url],
      ["https://…", sandbox.url],
      ['apiKey: "…"', `apiKey: "${LIVE}"`],
      ["whsec_…", WEBHOOK_SECRET],
      ["at-least-sixteen-characters", TOKEN],
      ["at least twelve characters", PASSWORD],
      ["3000", String(port)],
    ] as const;
    const file = path.join(folder, `${name}.mjs`);
    const text = values.reduce((all_, [from, to]) => all_.replaceAll(from, to), parts.join("\n"));
    expect(text).not.toContain("…");
    await writeFile(file, `${text}\nprocess.stdout.write("started\\n");\n`);
    const program = watchProgram(spawn(process.execPath, [file], { cwd: folder }));
    return { program, url: `http://127.0.0.1:${port}` };
  }

  const event = (name: string) => ({ id: `evt_${name}`, body: Buffer.from("{}") });
  /** As a provider does it: again after a 503, which a program that has just started gives on a busy machine. */
  async function deliver(url: string, name: string): Promise<number | null> {
    let status = await sendEvent(`${url}/webhooks/live`, event(name));
    while (status === 503) status = await sendEvent(`${url}/webhooks/live`, event(name));
    return status;
  }

  it("with Express", async () => {
    const { program, url } = await runProgram("express", [whole, closing]);
    await program.waitFor(/started/);
    expect(await deliver(url, "express")).toBe(200);
    expect((await fetch(`${url}/v1/orders`, READ)).status).toBe(200);
    expect((await fetch(`${url}/cakes`)).status).toBe(404);
    expect(await program.stop()).toMatchObject({ code: 0, signal: null });
  });

  it("with node:http, Fastify and Next.js", async () => {
    const body = "{}";
    const sign = makeSigner({ secrets: [WEBHOOK_SECRET] });
    const headers = {
      "content-type": "application/json",
      ...sign({ id: "evt_next", body: Buffer.from(body), nowSeconds: nowSeconds() }),
    };
    const call = `const ask = () => new Request("http://h/", ${JSON.stringify({ method: "POST", headers, body })});
      const answer = () => POST(ask(), { params: Promise.resolve({ source: "live" }) });
      let { status } = await answer();
      while (status === 503) ({ status } = await answer());
      console.log("status", status);`;
    const framework = await findFreePort();
    const onOwnPort = withFastify?.replace("3000", String(framework));
    const parts = [setUp.replace(/import express.*\n/, ""), plain, next, started, call, onOwnPort, closing];
    const { program, url } = await runProgram("http", parts);
    await program.waitFor(/started/);
    expect(await deliver(url, "http")).toBe(200);
    expect((await fetch(`${url}/v1/orders`, READ)).status).toBe(200);
    expect((await fetch(`${url}/cakes`)).status).toBe(404);
    expect(await deliver(`http://127.0.0.1:${framework}`, "fastify")).toBe(200);
    expect(await sendEvent(`http://127.0.0.1:${framework}/webhooks/stripe`, event("fastify"))).toBe(404);
    expect((await program.waitFor(/status (\d+)/))[1]).toBe("200");
    await program.stop("SIGKILL");
  });
});
