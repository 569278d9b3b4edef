import { mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { afterEach, expect, it, onTestFinished, vi } from "vitest";
import { findFreePort } from "../../../src/runtime/postgres/freePort.ts";
import { startSandbox } from "../../../src/sandbox/startSandbox.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import { at, makeEventBody } from "../../support/mirror/orders.ts";
import { startProgram, stopPrograms } from "../../support/programs/program.ts";
import { sendEvent, WEBHOOK_SECRET } from "../../support/signing/webhooks.ts";

const OTHER_SECRET = `whsec_${Buffer.from("another secret of the same length").toString("base64")}`;
const secretOf = (sourceId: string) => (sourceId === "one" ? WEBHOOK_SECRET : OTHER_SECRET);
const WAIT = { timeout: 90_000, interval: 100 };

afterEach(stopPrograms);

it("adds and removes a source at SIGHUP, while the same leader keeps polling the other one", async () => {
  const database = await makeTestDatabase();
  onTestFinished(() => database.drop());
  const sandbox = await startSandbox({
    databaseUrl: database.url,
    port: 0,
    seed: 1,
    speed: 0,
    rateLimits: false,
  });
  onTestFinished(() => sandbox.close());
  const folder = await mkdtemp(path.join(os.tmpdir(), "order-mirror-sources-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = path.join(folder, "sources.json");
  const describe = (sourceId: string, mode: string) => ({
    sourceId,
    mode,
    organization: "sandbox",
    baseUrl: sandbox.url,
    apiKey: `dos_${mode}_sandbox`,
    webhookSecrets: [secretOf(sourceId)],
  });
  const write = (text: string) => writeFile(file, text);
  const [one, two] = [describe("one", "live"), describe("two", "test")];
  await write(JSON.stringify([one]));

  const port = await findFreePort();
  const program = startProgram(["up"], {
    DATABASE_URL: database.url,
    HOST: "127.0.0.1",
    PORT: String(port),
    SOURCES_FILE: file,
    POLL_INTERVAL_SECONDS: "1",
    BACKFILL_SINCE: "PT1H",
    LOG_FORMAT: "json",
  });
  await program.waitFor(/poller is ready/);
  const send = (sourceId: string, id: string) =>
    sendEvent(
      `http://127.0.0.1:${port}/webhooks/${sourceId}`,
      { id, body: makeEventBody({ id, order: { reference: id, updatedAt: at(1) } }) },
      secretOf(sourceId),
    );
  const readApi = async (sourceId: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}/v1/orders`, { headers: { "X-Source": sourceId } });
    return answer.status;
  };
  /** Sends an event until it is stored or refused: a busy machine may answer 503, as during an outage. */
  const deliver = async (sourceId: string, id: string) => {
    let status: number | null = null;
    await vi.waitFor(async () => {
      status = await send(sourceId, id);
      expect([200, 404]).toContain(status);
    }, WAIT);
    return status;
  };
  /** When the last cycle of each source ended. */
  const readEnds = async () => {
    const { rows } = await database.pool.query<{ source_id: string; ended_at: string }>(
      "select source_id, last_cycle_ended_at::text as ended_at from mirror.poll_state where last_cycle_ended_at is not null",
    );
    return new Map(rows.map(({ source_id: sourceId, ended_at: endedAt }) => [sourceId, endedAt]));
  };
  /** Waits until each of these has ended two more cycles, the second of which began after now; returns who else did. */
  const pollsOn = async (...sourceIds: readonly string[]) => {
    const before = await readEnds();
    for (let cycle = 0; cycle < 2; cycle += 1) {
      const last = await readEnds();
      const isOver = async () => {
        const ends = await readEnds();
        return sourceIds.every((sourceId) => ends.has(sourceId) && ends.get(sourceId) !== last.get(sourceId));
      };
      await expect.poll(isOver, WAIT).toBe(true);
    }
    const after = await readEnds();
    return [...after.keys()].filter((sourceId) => after.get(sourceId) !== before.get(sourceId)).sort();
  };
  const fences = async (sourceId: string) => {
    const { rows } = await database.pool.query<{ fence: string }>(
      "select fence from mirror.leases where name = $1",
      [`poll:${sourceId}`],
    );
    return rows.map(({ fence }) => fence);
  };
  expect(await pollsOn("one")).toEqual(["one"]);
  expect([await deliver("one", "evt_1"), await deliver("two", "evt_2")]).toEqual([200, 404]);
  expect([await readApi("one"), await readApi("two")]).toEqual([200, 422]);
  const before = await fences("one");

  await write(JSON.stringify([one, two]));
  program.child.kill("SIGHUP");
  await program.waitFor(/"added":\["two"\].*read the sources again/);
  expect(await pollsOn("one", "two")).toEqual(["one", "two"]);
  expect([await deliver("one", "evt_3"), await deliver("two", "evt_4")]).toEqual([200, 200]);
  expect(await readApi("two")).toBe(200);

  // An unreadable file changes nothing, nor does a source that returns in the other mode.
  await write("[{");
  program.child.kill("SIGHUP");
  await program.waitFor(/is not valid JSON/);
  await write(JSON.stringify([one, { ...two, mode: "live", apiKey: "dos_live_0123456789" }]));
  program.child.kill("SIGHUP");
  await program.waitFor(/Source two holds test orders, and the configuration makes it live/);
  expect(await pollsOn("one", "two")).toEqual(["one", "two"]);
  expect(await fences("one")).toEqual(before);

  await write(JSON.stringify([two]));
  program.child.kill("SIGHUP");
  await program.waitFor(/"removed":\["one"\].*read the sources again/);
  expect(await pollsOn("two")).toEqual(["two"]);
  expect([await deliver("one", "evt_5"), await deliver("two", "evt_6")]).toEqual([404, 200]);
  const { code, signal } = await program.stop();
  expect(code ?? signal).toBe("SIGTERM");
  expect(program.output()).not.toContain("dos_live_sandbox");
});
