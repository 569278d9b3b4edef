import { afterAll, expect, it } from "vitest";
import { makeApply } from "../../../src/apply/apply.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { startSandbox } from "../../../src/sandbox/startSandbox.ts";
import { readListed, readPage } from "../../../src/wire/order.ts";
import { openContractMirror } from "../../support/contract/contractMirror.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { ask } from "../../support/http/serve.ts";
import { DEVIATIONS } from "../../support/contract/deviations.ts";
import { makeCorpus, type CorpusRequest } from "../../support/contract/dropInCorpus.ts";
import { readAt } from "../../support/mirror/orders.ts";
import { AT_REST, LIVE, orderBody, speakTo, TEST } from "../../support/providers/testSandbox.ts";

const STEPS = [0, 1, 2, 3, 4];
const { database } = await openTestDatabase();

const sandbox = await startSandbox({ databaseUrl: database.url, ...AT_REST, clock: "virtual" });
const { ask: order, steer } = speakTo(sandbox);
for (const branch of ["centrum", "utrecht", "rotterdam"]) {
  for (const steps of STEPS) {
    const body = orderBody({ branch, externalOrderId: `${branch} ${steps}/é` });
    const { reference } = (await order("POST", "/v1/orders", { body })).json;
    for (let step = 0; step < steps; step += 1) await steer("POST", `/orders/${reference}/step`);
    if (steps === 2) await steer("POST", `/orders/${reference}/cancel`);
    await sandbox.advance(420_000);
  }
}
for (let made = 0; made < 4; made += 1) await order("POST", "/v1/orders", { body: orderBody() });
const { json: testOrder } = await order("POST", "/v1/orders", { key: TEST, body: orderBody() });
const mirror = await openContractMirror(database, speakTo(sandbox));
for (const [sourceId, key] of [
  ["live", LIVE],
  ["test", TEST],
] as const)
  await fill(sourceId, key);
const { json: page } = await order("GET", "/v1/orders?limit=200");
const { json: branches } = await order("GET", "/v1/branches");
const world = { orders: page.data, testReference: testOrder.reference, branches: branches.data };
afterAll(async () => {
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

async function askAs(baseUrl: string, { method, target, ...request }: CorpusRequest, authorization?: string) {
  const headers = { ...request.headers, ...(authorization === undefined ? {} : { authorization }) };
  const { status = 0, body, ...answer } = await ask(baseUrl + target, { method, headers });
  const named = Object.entries(answer.headers).map(([name, value]) => [name, String(value)] as const);
  const sorted = named.toSorted(([left], [right]) => (left < right ? -1 : 1));
  return { status, headers: Object.fromEntries(sorted), body };
}

it("answers some 600 requests byte for byte as the provider does, except for declared differences", async () => {
  const corpus = makeCorpus(world);
  const undeclared: unknown[] = [];
  const used = new Set<string>();
  for (const request of corpus) {
    let provider = await askAs(sandbox.url, request, credentialOf(request.as, KEYS));
    let ours = await askAs(mirror.url, request, credentialOf(request.as, mirror.keys));
    for (const { what, concerns, reduce } of DEVIATIONS) {
      if (!concerns(request)) continue;
      const before = JSON.stringify(provider) !== JSON.stringify(ours);
      [provider, ours] = [reduce(provider), reduce(ours)];
      if (before) used.add(what);
    }
    if (JSON.stringify(provider) !== JSON.stringify(ours)) undeclared.push({ request, provider, ours });
  }
  expect(undeclared).toEqual([]);
  expect(corpus.length).toBeGreaterThan(550);
  expect(DEVIATIONS.map(({ what }) => what).filter((what) => !used.has(what))).toEqual([]);
});
