import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, expect, it, onTestFinished } from "vitest";
import { startEmbeddedPostgres, type EmbeddedPostgres } from "../../../src/postgres/embeddedPostgres.ts";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { backUp } from "../../support/servers/ownPostgres.ts";
import { runOnServer } from "../../support/servers/database.ts";
import { startRole, stopPrograms } from "../../support/programs/program.ts";
import { makeSandboxControl } from "../../support/providers/sandboxControl.ts";
import { createLiveOrder, makeTestSandbox } from "../../support/providers/testSandbox.ts";
import { WEBHOOK_SECRET } from "../../support/signing/signing.ts";

const ORDERS = 5;

const sandbox = await makeTestSandbox();
afterEach(stopPrograms);
afterAll(() => sandbox.close());

async function startServer(dataDir: string): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres({ dataDir, port: await findFreePort(), revive: false });
  onTestFinished(() => server.stop());
  return server;
}

const create = () => Promise.all(Array.from({ length: ORDERS }, () => createLiveOrder(sandbox.url)));

it("a mirror restored from a backup resumes from its cursors, and polling adds later changes", async () => {
  const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-restore-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const [liveDir, copyDir] = [path.join(folder, "live"), path.join(folder, "copy")];
  const port = String(await findFreePort());
  const control = makeSandboxControl(sandbox.url);
  const url = `http://127.0.0.1:${port}`;
  await control.addWebhook({
    organization: "sandbox",
    mode: "live",
    url: `${url}/webhooks/live`,
    secret: WEBHOOK_SECRET,
  });
  const startUp = (databaseUrl: string) =>
    startRole("up", {
      DATABASE_URL: databaseUrl,
      PORT: port,
      DELIVERY_BASE_URL: sandbox.url,
      POLL_INTERVAL_SECONDS: "1",
      BACKFILL_SINCE: "PT1H",
    });
  const statuses = (databaseUrl: string) => async () => {
    const rows = await runOnServer(databaseUrl, "select reference, status from mirror.orders");
    return new Map(rows.map(({ reference, status }) => [String(reference), String(status)]));
  };
  const safeThrough = async (databaseUrl: string) => {
    const sql = "select coalesce(max(safe_through), 0)::text as instant from mirror.poll_state";
    return BigInt(String((await runOnServer(databaseUrl, sql))[0]?.["instant"]));
  };

  const first = await startServer(liveDir);
  const before = await startUp(first.url);
  const old = await create();
  for (const reference of old) await control.moveByFleet(reference);
  await expect
    .poll(async () => (await statuses(first.url)()).size, { timeout: 90_000 })
    .toBeGreaterThanOrEqual(ORDERS);
  await expect.poll(() => safeThrough(first.url), { timeout: 90_000 }).toBeGreaterThan(0n);
  // Recovery begins a new timeline, by which the change feed notices that it went back in time.
  const settings = { restore_command: "false" };
  await backUp({ url: first.url, from: liveDir, to: copyDir, signal: "recovery.signal", settings });

  // What is acknowledged from now on is lost with the first server's disk.
  const young = await create();
  for (const reference of [...old, ...young]) await control.moveByFleet(reference);
  await control.settleEvents();
  const { next } = (await (await fetch(`${url}/v1/changes`)).json()) as { next: string };
  await before.stop("SIGKILL");
  await first.stop();
  await rm(liveDir, { recursive: true });

  const second = await startServer(copyDir);
  const restored = await safeThrough(second.url);
  expect(restored).toBeGreaterThan(0n);
  expect((await statuses(second.url)()).has(young[0] ?? "")).toBe(false);
  await startUp(second.url);
  const truth = async () => {
    const answers = [...old, ...young].map(async (reference) => {
      const headers = { authorization: "Bearer dos_live_sandbox" };
      const answer = await fetch(`${sandbox.url}/v1/orders/${reference}`, { headers });
      return [reference, ((await answer.json()) as { status: string }).status] as const;
    });
    return new Map(await Promise.all(answers));
  };
  const expected = await truth();
  await expect
    .poll(
      async () => {
        const mirrored = await statuses(second.url)();
        return [...expected].filter(([reference, status]) => mirrored.get(reference) !== status);
      },
      { timeout: 90_000 },
    )
    .toEqual([]);
  await expect.poll(() => safeThrough(second.url), { timeout: 90_000 }).toBeGreaterThan(restored);
  // A reader that has seen lost changes resumes after the last restored change.
  const answer = await fetch(`${url}/v1/changes?limit=500&after=${next}`);
  expect(answer.status).toBe(200);
  const { data } = (await answer.json()) as { data: { reference: string; status: string }[] };
  const served = new Map(data.map(({ reference, status }) => [reference, status]));
  expect(young.map((reference) => served.get(reference))).toEqual(
    young.map((reference) => expected.get(reference)),
  );
});
