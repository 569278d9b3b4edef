import { spawn } from "node:child_process";
import path from "node:path";
import { afterAll, afterEach, beforeAll, expect, it, onTestFinished } from "vitest";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { addSource, at, makeEventBody, putIntoInbox } from "../../support/mirror/orders.ts";
import { startRole, stopPrograms } from "../../support/programs/program.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { sendEvent } from "../../support/signing/signing.ts";

const READERS = path.resolve(import.meta.dirname, "../../support/programs/readers.mjs");
const CHANGES = 600;
const EVENT_EVERY_MS = 20;
const ROUNDS = 3;

const { database } = await openTestDatabase();
let url: string;

const eventBody = (id: string, number: number) =>
  makeEventBody({ id, order: { reference: id, updatedAt: at(number), more: { note: "x".repeat(2_000) } } });

beforeAll(async () => {
  await addSource(database.pool, "live");
  const events = Array.from({ length: CHANGES }, (_, number) => `evt_read_${number}`);
  const bodies = events.map((eventId, number) => ({ eventId, body: eventBody(eventId, number) }));
  await makeLiveApply(database.pool).applyEvents(await putIntoInbox(database.pool, bodies));
  const port = await findFreePort();
  url = `http://127.0.0.1:${port}`;
  await startRole("web", { DATABASE_URL: database.url, PORT: String(port) });
});
afterEach(() => stopReaders());
afterAll(stopPrograms);

let stopReaders: () => void = () => undefined;

/** Readers of the feed in a process of their own, which answers count for; resolves when each has had one. */
async function startReaders(connections: number): Promise<void> {
  const address = `${url}/v1/changes?limit=500`;
  const child = spawn(process.execPath, [READERS, address, String(connections)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  stopReaders = () => void child.kill("SIGKILL");
  let printed = "";
  child.stdout.on("data", (chunk: Buffer) => (printed += chunk.toString()));
  await expect.poll(() => printed.split("\n").length, { timeout: 60_000 }).toBeGreaterThan(10);
  onTestFinished(() => expect(printed.replaceAll(/200\n/g, "")).toMatch(/^\d{0,3}$/));
}

/** Times in ms until each event had its answer, all of them 200. */
async function timeEvents(name: string, count: number): Promise<number[]> {
  const sent: Promise<number>[] = [];
  const send = async (number: number) => {
    const id = `evt_${name}_${number}`;
    const startedMs = performance.now();
    expect(await sendEvent(`${url}/webhooks/live`, { id, body: eventBody(id, number) })).toBe(200);
    return performance.now() - startedMs;
  };
  for (let number = 0; number < count; number += 1) {
    sent.push(send(number));
    await systemClock.sleep(EVENT_EVERY_MS);
  }
  return Promise.all(sent);
}

const p99 = (times: readonly number[]) =>
  times.toSorted((left, right) => left - right)[Math.floor(times.length * 0.99) - 1] ?? NaN;

it("twenty connections that read large answers again and again do not slow acknowledgements", async () => {
  // In turn, and the best of each: what else this machine does only adds.
  const [quiet, beside]: [number[], number[]] = [[], []];
  for (let round = 0; round < ROUNDS; round += 1) {
    quiet.push(p99(await timeEvents(`quiet_${round}`, 100)));
    await startReaders(20);
    beside.push(p99(await timeEvents(`beside_${round}`, 100)));
    stopReaders();
  }
  const [quietMs, besideMs] = [Math.min(...quiet), Math.min(...beside)];
  process.stderr.write(
    `acknowledgements, p99: ${quietMs.toFixed(1)} ms alone, ${besideMs.toFixed(1)} ms beside readers\n`,
  );
  // With all answers made at once it is seventeen times as long, with two at a time a little over twice.
  expect(besideMs).toBeLessThan(Math.max(50, 6 * quietMs));
});
