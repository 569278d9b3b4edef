import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, it, onTestFinished } from "vitest";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { ask, logIn, listenHere } from "../../support/http/serve.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { at, makeEventBody } from "../../support/mirror/orders.ts";
import { LIVE_ENV, startProgram, startRole, stopPrograms } from "../../support/programs/program.ts";
import { sendRaw } from "../../support/http/rawHttp.ts";
import { sendEvent } from "../../support/signing/signing.ts";

const { database } = await openTestDatabase();
let folder: string;
let url: string;
let env: Record<string, string>;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "order-mirror-closed-"));
  const port = await findFreePort();
  url = `http://127.0.0.1:${port}`;
  env = {
    DATABASE_URL: database.url,
    DATA_DIR: folder,
    PORT: String(port),
    ...LIVE_ENV,
    LOCAL_TRUST: "",
  };
});
afterEach(async () => {
  await stopPrograms();
  await rm(folder, { recursive: true });
});

const startWeb = (more: Record<string, string> = {}) => startRole("web", { ...env, ...more });

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
const statusOf = async (address: string, headers: Record<string, string> = {}) =>
  (await ask(address, { headers })).status;

/** A proxy that adds no headers, like a plain `proxy_pass` or a TCP forwarder. */
async function startForwarder(): Promise<string> {
  const { port } = new URL(url);
  const forwarder = createServer((client) => {
    const server = connect(Number(port), "127.0.0.1");
    client.on("error", () => server.destroy()).pipe(server);
    server.on("error", () => client.destroy()).pipe(client);
  });
  onTestFinished(() => void forwarder.close());
  return (await listenHere(forwarder)).url;
}

it("a first start without passwords and tokens is open to nobody, on this machine and behind a silent proxy alike; it creates them for this account only, writes none into a log, and the next start keeps them", async () => {
  const web = await startWeb();
  for (const base of [url, await startForwarder()]) {
    for (const [place, status] of [
      ["/v1/orders", 401],
      ["/v1/changes", 401],
      ["/ops", 401],
      ["/ops/queues", 401],
      ["/metrics", 401],
      ["/livez", 200],
    ] as const) {
      expect([place, await statusOf(base + place, { Host: "localhost" })]).toEqual([place, status]);
    }
    const refetch = await ask(`${base}/ops/orders/live/R1/refetch`, { method: "POST" });
    expect(refetch.status).toBe(401);
  }

  await web.waitFor(/were created/);
  const file = path.join(folder, "credentials.json");
  expect(web.output()).toContain(file);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  const { apiTokens, metricsToken, opsPassword, opsViewerPassword } = JSON.parse(
    await readFile(file, "utf8"),
  ) as { apiTokens: { live: string } } & Record<"metricsToken" | "opsPassword" | "opsViewerPassword", string>;
  for (const secret of [apiTokens.live, metricsToken, opsPassword, opsViewerPassword])
    expect(web.output()).not.toContain(secret);
  expect(await statusOf(`${url}/metrics`, bearer(metricsToken))).toBe(200);
  for (const password of [opsPassword, opsViewerPassword])
    expect(await statusOf(`${url}/ops`, await logIn(url, password))).toBe(200);

  await web.stop();
  const second = await startWeb();
  expect(second.output()).not.toContain("were created");
  expect(await statusOf(`${url}/v1/orders`, bearer(apiTokens.live))).toBe(200);
});

it("with LOCAL_TRUST this machine needs no token, but requests through a proxy or by another name do", async () => {
  await startWeb({ LOCAL_TRUST: "true" });
  for (const place of ["/v1/orders", "/ops", "/metrics"]) {
    expect([place, await statusOf(url + place)]).toEqual([place, 200]);
    const behindProxy = await statusOf(url + place, { "X-Forwarded-For": "127.0.0.1" });
    expect([place, behindProxy]).toEqual([place, place === "/ops" ? 403 : 401]);
    expect(await statusOf(url + place, { Host: "attacker.example" })).toBe(421);
  }
  await expect(stat(path.join(folder, "credentials.json"))).rejects.toThrow("ENOENT");
});

it("the address of a request must be a path under a configured name; events and health checks are accepted under any", async () => {
  await startWeb({ PUBLIC_URL: "https://mirror.business.example,http://mirror.internal:8080" });
  const port = Number(new URL(url).port);
  const names = ["mirror.business.example", "MIRROR.internal", "localhost", `127.0.0.1:${port}`, "[::1]"];
  for (const name of names)
    expect([name, await statusOf(`${url}/v1/orders`, { Host: name })]).toEqual([name, 401]);
  for (const name of ["attacker.example", "mirror.business.example.attacker.example", "10.0.0.1"]) {
    for (const place of ["/v1/orders", "/ops", "/ops/login", "/docs", "/metrics"]) {
      expect([place, name, await statusOf(url + place, { Host: name })]).toEqual([place, name, 421]);
    }
  }
  expect(await statusOf(`${url}/livez`, { Host: "10.0.0.1" })).toBe(200);
  for (const target of ["http://localhost/v1/orders", "http://localhost/webhooks/live", "https://x/ops"]) {
    const answer = await sendRaw(port, `GET ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    expect([target, answer.status]).toEqual([target, 400]);
  }
  const unsigned = {
    method: "POST",
    headers: { Host: "10.0.0.1", "Content-Type": "application/json" },
    body: "{}",
  };
  expect((await ask(`${url}/webhooks/live`, unsigned)).status).toBe(401);
  const body = makeEventBody({ id: "evt_1", order: { reference: "R1", updatedAt: at(1) } });
  expect(await sendEvent(`${url}/webhooks/live`, { id: "evt_1", body })).toBe(200);
});

it("a worker's health server answers metrics only under a configured name, and with a token", async () => {
  const port = await findFreePort();
  const worker = startProgram(["worker"], {
    ...env,
    HEALTH_PORT: String(port),
    METRICS_TOKEN: "a-token-for-the-metrics",
    PUBLIC_URL: "https://mirror.business.example",
  });
  await worker.waitFor(/health and metrics are served/);
  const metrics = `http://127.0.0.1:${port}/metrics`;
  const token = bearer("a-token-for-the-metrics");
  expect(await statusOf(metrics, token)).toBe(200);
  expect(await statusOf(metrics)).toBe(401);
  expect(await statusOf(metrics, { ...token, Host: "attacker.example" })).toBe(421);
  expect(await statusOf(`http://127.0.0.1:${port}/livez`, { Host: "10.0.0.1" })).toBe(200);
  await worker.stop();
});

it("with WEBHOOK_PORT, that port serves only webhooks, and only it does", async () => {
  const webhooks = `http://127.0.0.1:${await findFreePort()}`;
  await startWeb({ WEBHOOK_PORT: new URL(webhooks).port });
  const body = makeEventBody({ id: "evt_port", order: { reference: "R1", updatedAt: at(1) } });
  const send = (to: string) => sendEvent(`${to}/webhooks/live`, { id: "evt_port", body });
  expect([await send(url), await send(webhooks)]).toEqual([404, 200]);
  for (const place of ["/livez", "/openapi.json", "/v1/orders", "/ops", "/metrics"]) {
    expect([place, await statusOf(webhooks + place)]).toEqual([place, 404]);
    expect([place, await statusOf(url + place)]).not.toEqual([place, 404]);
  }
});
