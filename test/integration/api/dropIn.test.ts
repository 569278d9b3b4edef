import { Agent, request as send } from "node:http";
import { afterAll, expect, it } from "vitest";
import { makeApply } from "../../../src/apply/apply.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { startSandbox } from "../../../src/sandbox/startSandbox.ts";
import { readListed, readPage } from "../../../src/wire/order.ts";
import { openContractMirror } from "../../support/contract/contractMirror.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { DEVIATIONS, type ComparedAnswer } from "../../support/contract/deviations.ts";
import { makeCorpus, type CorpusRequest } from "../../support/contract/dropInCorpus.ts";
import { readAt } from "../../support/mirror/orders.ts";
import { AT_REST, LIVE, orderBody, speakTo, TEST } from "../../support/providers/testSandbox.ts";

const STEPS = [0, 1, 2, 3, 4];
const agent = new Agent({ keepAlive: true, maxSockets: 4 });
const { database } = await openTestDatabase();

const sandbox = await startSandbox({ databaseUrl: database.url, ...AT_REST, clock: "virtual" });
const { ask, steer } = speakTo(sandbox);
for (const branch of ["centrum", "utrecht", "rotterdam"]) {
  for (const steps of STEPS) {
    const body = orderBody({ branch, externalOrderId: `${branch} ${steps}/é` });
    const { reference } = (await ask("POST", "/v1/orders", { body })).json;
    for (let step = 0; step < steps; step += 1) await steer("POST", `/orders/${reference}/step`);
    if (steps === 2) await steer("POST", `/orders/${reference}/cancel`);
    await sandbox.advance(420_000);
  }
}
for (let made = 0; made < 4; made += 1) await ask("POST", "/v1/orders", { body: orderBody() });
const { json: testOrder } = await ask("POST", "/v1/orders", { key: TEST, body: orderBody() });
const mirror = await openContractMirror(database, sandbox.url);
for (const [sourceId, key] of [
  ["live", LIVE],
  ["test", TEST],
] as const)
  await fill(sourceId, key);
const { json: page } = await ask("GET", "/v1/orders?limit=200");
const { json: branches } = await ask("GET", "/v1/branches");
const world = { orders: page.data, testReference: testOrder.reference, branches: branches.data };
afterAll(async () => {
  agent.destroy();
  await mirror.close();
  await sandbox.close();
});

/** Applies the provider's list to the mirror, as a poll does. */
async function fill(sourceId: "live" | "test", key: string): Promise<void> {
  const { text } = await speakTo(sandbox).ask("GET", "/v1/orders?limit=200", { key });
  const snapshots = readPage({ text, value: JSON.parse(text) }).elements.map((element) => {
    const listed = readListed(element);
    if (listed.kind !== "order") throw new TypeError(listed.detail);
    return listed.snapshot;
  });
  const modes = new Map([[sourceId, sourceId]]);
  const apply = makeApply({ pool: database.pool, logger: silentLogger, modes });
  await apply.applyReads({ sourceId, via: "poll", snapshots, time: readAt(sandbox.now()) });
}

const KEYS = { live: LIVE, test: TEST };
const credentialOf = (as: CorpusRequest["as"], keys: { live: string; test: string }) =>
  ({
    live: `Bearer ${keys.live}`,
    test: `Bearer ${keys.test}`,
    nobody: undefined,
    stranger: "Bearer unknown",
    basic: "Basic dXNlcjpwYXNz",
    empty: "Bearer",
    lowerCase: `bearer ${keys.live}`,
    twoSpaces: `Bearer  ${keys.live}`,
  })[as];

/** Sends the target unchanged; fetch would normalize it. */
function askRaw(baseUrl: string, { method, target, headers }: CorpusRequest, authorization?: string) {
  const { hostname, port } = new URL(baseUrl);
  return new Promise<ComparedAnswer>((resolve, reject) => {
    const options = { agent, hostname, port, method, path: target };
    const sent = send(
      { ...options, headers: { ...headers, ...(authorization === undefined ? {} : { authorization }) } },
      (answer) => {
        const chunks: Buffer[] = [];
        answer.on("data", (chunk: Buffer) => chunks.push(chunk));
        answer.on("error", reject);
        answer.on("end", () => {
          const named = Object.entries(answer.headers).map(([name, value]) => [name, String(value)] as const);
          const body = Buffer.concat(chunks).toString("latin1");
          resolve({ status: answer.statusCode ?? 0, headers: Object.fromEntries(named), body });
        });
      },
    );
    sent.on("error", reject);
    sent.end();
  });
}

it("answers some 600 requests byte for byte as the provider does, except for declared differences", async () => {
  const corpus = makeCorpus(world);
  const undeclared: unknown[] = [];
  const used = new Set<string>();
  for (const request of corpus) {
    let provider = await askRaw(sandbox.url, request, credentialOf(request.as, KEYS));
    let ours = await askRaw(mirror.url, request, credentialOf(request.as, mirror.keys));
    for (const { what, concerns, reduce } of DEVIATIONS) {
      if (!concerns(request)) continue;
      const before = JSON.stringify(provider) !== JSON.stringify(ours);
      [provider, ours] = [reduce(provider), reduce(ours)];
      if (before) used.add(what);
    }
    const [left, right] = [sortHeaders(provider), sortHeaders(ours)];
    if (JSON.stringify(left) !== JSON.stringify(right))
      undeclared.push({ request, provider: left, mirror: right });
  }
  expect(undeclared).toEqual([]);
  expect(corpus.length).toBeGreaterThan(550);
  expect(DEVIATIONS.map(({ what }) => what).filter((what) => !used.has(what))).toEqual([]);
});

function sortHeaders({ status, headers, body }: ComparedAnswer): ComparedAnswer {
  const sorted = Object.entries(headers).toSorted(([left], [right]) => (left < right ? -1 : 1));
  return { status, headers: Object.fromEntries(sorted), body };
}
