import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { verifyWebhook } from "../../../src/client/mirrorClient.ts";
import type { WebhookMessage } from "../../../src/client/mirrorClient.ts";
import { makeOutgoingLane } from "../../../src/outgoing/outgoingLane.ts";
import { recordSubscriptions, replayFrom } from "../../../src/outgoing/outgoingPlan.sql.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { startSandbox } from "../../../src/sandbox/startSandbox.ts";
import type { Sandbox } from "../../../src/sandbox/startSandbox.ts";
import { openContractMirror } from "../../support/contract/contractMirror.ts";
import type { ContractMirror } from "../../support/contract/contractMirror.ts";
import { runProgram, startProgram, stopPrograms } from "../../support/programs/program.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { orderBody } from "../../support/providers/testSandbox.ts";

let database: TestDatabase;
let sandbox: Sandbox;
let mirror: ContractMirror;
let receiver: Server;
let address: string;
let folder: string;
/** The messages as received, and the answers to them. */
const requests: { headers: Record<string, string>; body: string; status: number }[] = [];
let status = 204;

beforeAll(async () => {
  database = await makeTestDatabase();
  const options = { port: 0, seed: 1, speed: 0, rateLimits: false };
  sandbox = await startSandbox({ databaseUrl: database.url, ...options });
  mirror = await openContractMirror(database, sandbox.url);
  folder = await mkdtemp(path.join(tmpdir(), "order-mirror-listen-"));
  await writeFile(path.join(folder, "token"), `${mirror.keys.test}\n`);
  receiver = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const headers = request.headers as Record<string, string>;
      requests.push({ headers, body: Buffer.concat(chunks).toString(), status });
      response.writeHead(status).end();
    });
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  address = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hooks`;
});
afterEach(stopPrograms);
afterAll(async () => {
  receiver.closeAllConnections();
  await new Promise((resolve) => receiver.close(resolve));
  await mirror.close();
  await sandbox.close();
  await database.drop();
  await rm(folder, { recursive: true });
});

const file = (name: string) => path.join(folder, name);
const listen = (...more: string[]) => {
  const to = ["listen", "--forward", address, "--state", file("state")];
  return [...to, "--url", mirror.url, "--token-file", file("token"), "--source", "test", ...more];
};

async function ask(method: string, resource: string, body?: unknown): Promise<{ reference: string }> {
  const response = await fetch(mirror.url + resource, {
    method,
    headers: { authorization: `Bearer ${mirror.keys.test}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  expect(response.ok).toBe(true);
  return (await response.json()) as { reference: string };
}

const accepted = () => requests.filter((each) => each.status === 204);
const readMessages = (secrets: string) =>
  accepted().map(({ headers, body }) => verifyWebhook({ headers, body, secrets }));

/** The messages that an endpoint of OUTGOING_WEBHOOKS_FILE gets for all changes of the source. */
async function sendOutgoing(): Promise<WebhookMessage[]> {
  const { pool } = database;
  const endpointId = "erp";
  const subscription = { endpointId, sourceId: "test", types: null, statuses: null };
  await recordSubscriptions(pool, [subscription]);
  await replayFrom(pool, { ...subscription, from: 0n });
  const sent: WebhookMessage[] = [];
  const send = ({ id, body }: { id: string; body: Buffer }) => {
    sent.push({ ...(JSON.parse(body.toString()) as WebhookMessage), id });
    const beginning = Buffer.from("");
    return Promise.resolve({
      kind: "answered",
      status: 200,
      retryAfterMs: null,
      durationMs: 1,
      beginning,
    } as const);
  };
  const lane = makeOutgoingLane({
    pool,
    endpoint: { endpointId, send, fields: "redacted", ordered: false, rate: null, paused: false },
    subscriptions: [subscription],
    clock: systemClock,
    logger: silentLogger,
    random: () => 0,
  });
  while ((await lane.runOnce()) > 0);
  return sent;
}

it("sends the messages of outgoing webhooks, each once and in sequence, across refusals and restarts", async () => {
  const { reference } = await ask("POST", "/v1/orders", orderBody({ externalOrderId: "listen-1" }));
  status = 500;
  const first = startProgram(listen("--after", "beginning"));
  const [, secret = ""] = await first.waitFor(/Signing secret: (\S+)/);
  await first.waitFor(/sent again in/);
  status = 204;
  await expect.poll(accepted).toHaveLength(1);
  await ask("POST", `/v1/test/orders/${reference}/advance`);
  await expect.poll(accepted).toHaveLength(2);
  await expect.poll(() => first.output()).toMatch(/order\.status_changed .* 204/);
  expect((await first.stop("SIGINT")).code).toBe(130);
  await ask("POST", `/v1/test/orders/${reference}/advance`);
  await ask("POST", `/v1/orders`, orderBody({ externalOrderId: "listen-2" }));

  const second = startProgram(listen("--json"));
  await expect.poll(accepted).toHaveLength(4);
  await expect.poll(() => second.output()).toMatch(/"type":"order\.new".*"outcome":"204"/);
  expect((await second.stop("SIGTERM")).code).toBe(143);
  const messages = readMessages(secret);
  const sent = new Map((await sendOutgoing()).map((message) => [message.id, message]));
  expect(messages).toEqual(messages.map(({ id }) => sent.get(id)));
  expect(sent.size).toBe(messages.length);
  expect(messages.map(({ type }) => type)).toEqual([
    "order.new",
    "order.status_changed",
    "order.status_changed",
    "order.new",
  ]);
  expect((await stat(file("state"))).mode & 0o777).toBe(0o600);
});

it("explains wrong arguments", async () => {
  const forward = await runProgram(["listen", "--forward", "localhost:8080"]);
  expect([forward.code, forward.stderr]).toEqual([2, expect.stringContaining("--forward is not")]);
  await writeFile(file("other"), "notes");
  const state = await runProgram([...listen(), "--state", file("other")]);
  expect([state.code, state.stderr]).toEqual([2, expect.stringContaining("Name another one with --state")]);
  const source = await runProgram([...listen(), "--source", "live", "--state", file("new")]);
  expect([source.code, source.stderr]).toEqual([1, expect.stringContaining("unknown_source")]);
  const removed =
    "insert into mirror.feed_removals (source_id, position) select 'test', max(position) from mirror.changes";
  await database.pool.query(removed);
  const { secret } = JSON.parse(await readFile(file("state"), "utf8")) as { secret: string };
  await writeFile(file("old"), JSON.stringify({ secret, position: "0123456789ab.1" }));
  const old = await runProgram([...listen(), "--state", file("old")]);
  const advice = `Start with --after latest, and without "position" in ${file("old")}. The signing secret there stays.`;
  expect([old.code, old.stderr]).toEqual([2, expect.stringContaining(advice)]);

  await writeFile(file("old"), JSON.stringify({ secret }));
  const again = startProgram([...listen("--after", "latest"), "--state", file("old")]);
  expect((await again.waitFor(/Signing secret: (\S+)/))[1]).toBe(secret);
  await again.waitFor(/Following/);
  await again.stop("SIGINT");
});
