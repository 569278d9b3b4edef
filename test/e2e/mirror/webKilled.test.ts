import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, expect, it, onTestFinished } from "vitest";
import { createMirrorClient, fileStore } from "../../../src/client/mirrorClient.ts";
import { findFreePort } from "../../../src/runtime/postgres/freePort.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { addSource, at, makeSnapshot, readAt } from "../../support/mirror/orders.ts";
import { startProgram, stopPrograms } from "../../support/programs/program.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";

const ORDERS = 40;
const KILLS = 4;

afterEach(stopPrograms);

it("a reader gets each change once and in sequence while the web process is killed, and across its own restart", async () => {
  const database = await makeTestDatabase();
  onTestFinished(() => database.drop());
  await addSource(database.pool, "live");
  const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-killed-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const port = await findFreePort();
  const env = {
    DATABASE_URL: database.url,
    PORT: String(port),
    DELIVERY_BASE_URL: "http://127.0.0.1:9",
    DELIVERY_LIVE_API_KEY: "dos_live_killed",
  };
  const startWeb = async () => {
    const web = startProgram(["web"], env);
    await web.waitFor(/web is ready/);
    return web;
  };
  const apply = makeLiveApply(database.pool);
  let seconds = 0;
  const change = async (number: number) => {
    seconds += 1;
    const snapshots = [
      makeSnapshot({ reference: `DO-${number}`, updatedAt: at(seconds), status: `status_${seconds}` }),
    ];
    await apply.applyReads({ sourceId: "live", via: "poll", snapshots, time: readAt(0n) });
  };
  for (let number = 0; number < ORDERS; number += 1) await change(number);
  let web = await startWeb();

  const mirror = createMirrorClient({ baseUrl: `http://127.0.0.1:${port}` });
  const store = fileStore(path.join(folder, "cursor"));
  const revisions = new Map<string, number>();
  const mistakes: string[] = [];
  let waits = 0;
  /** Reads until the signal; what is not the next revision of its order is a mistake. */
  const read = async (signal: AbortSignal) => {
    const onState = ({ state }: { state: string }) => void (waits += state === "waiting" ? 1 : 0);
    for await (const { reference, revision } of mirror.changes({ store, signal, onState })) {
      const due = (revisions.get(reference) ?? 0) + 1;
      if (revision !== due) mistakes.push(`${reference} ${revision} instead of ${due}`);
      revisions.set(reference, revision);
    }
  };
  const count = () => [...revisions.values()].reduce((sum, revision) => sum + revision, 0);

  let stopping = new AbortController();
  let reading = read(stopping.signal);
  // A reader that stops before its snapshot is complete begins with a new one.
  await expect.poll(() => store.load()).toBeDefined();
  for (let kill = 0; kill < KILLS; kill += 1) {
    for (let each = 0; each < 10; each += 1) await change((each * 7 + kill) % ORDERS);
    await web.stop("SIGKILL");
    for (let each = 0; each < 10; each += 1) await change((each * 11 + kill) % ORDERS);
    web = await startWeb();
    await expect.poll(count, { timeout: 60_000 }).toBe(seconds);
    stopping.abort();
    await reading;
    await change(kill);
    stopping = new AbortController();
    reading = read(stopping.signal);
    await expect.poll(count, { timeout: 60_000 }).toBe(seconds);
  }
  stopping.abort();
  await reading;
  expect(mistakes).toEqual([]);
  expect(waits).toBeGreaterThanOrEqual(KILLS);
  expect(revisions.size).toBe(ORDERS);
});
