import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import type { Pool } from "../../../src/database/database.ts";
import { makeOpsRouter } from "../../../src/ops/opsRouter.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { openBoardQueue } from "../../support/pages/boardQueue.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { readEventStream } from "../../support/http/eventStream.ts";
import { fillMirror } from "../../support/pages/opsMirror.ts";
import { serve } from "../../support/http/serve.ts";
import type { TestServer } from "../../support/http/serve.ts";

let database: TestDatabase;
let pool: Pool;
let board: Awaited<ReturnType<typeof openBoardQueue>>;
let server: TestServer;
let statements = 0;
const closing: AbortController[] = [];
const shutdown = new AbortController();

beforeAll(async () => {
  database = await makeTestDatabase();
  pool = makePool({ url: database.url, purpose: "ops", max: 3, statementTimeoutMs: 5_000 });
  board = await openBoardQueue(database.url, "live");
  await fillMirror(database.pool);
  const query = pool.query.bind(pool) as (...args: unknown[]) => unknown;
  const counting = { query: (...args: unknown[]) => ((statements += 1), query(...args)) } as unknown as Pool;
  const config = { opsPassword: null, opsViewerPassword: null, localTrust: true };
  const { signal } = shutdown;
  server = await serve(
    makeOpsRouter({ pool: counting, queue: board.queue, config, logger: silentLogger, signal }),
  );
});
afterEach(() => {
  for (const each of closing.splice(0)) each.abort();
});
afterAll(async () => {
  shutdown.abort();
  await server.close();
  await board.close();
  await pool.end();
  await database.drop();
});

/** What a tab hears, as it comes. */
async function listen(query = "") {
  const leaving = new AbortController();
  closing.push(leaving);
  const response = await fetch(`${server.url}/ops/updates${query}`, { signal: leaving.signal });
  const heard: { event: string; text: string }[] = [];
  void (async () => {
    for await (const { event = "", data = "" } of readEventStream(response)) {
      heard.push({ event, text: data.replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ") });
    }
  })().catch(() => undefined);
  const of = (event: string) => heard.filter((each) => each.event === event).map(({ text }) => text);
  return { response, of, leave: () => leaving.abort() };
}

const decide = (reference: string, via = "webhook") =>
  database.pool.query(
    "insert into mirror.history (source_id, reference, via, verdict, status) values ('live', $1, $2, 'applied', 'created')",
    [reference, via],
  );
const PATIENCE = { timeout: 60_000 };

describe("the live feed", () => {
  it("begins with the last decisions, and then tells each new one that fits the filter, once", async () => {
    const all = await listen();
    const polls = await listen("?via=poll&verdict=applied");
    await expect.poll(() => all.of("tail").length, PATIENCE).toBe(1);
    expect(all.of("tail")[0]).toContain("ORD-1021");
    await expect.poll(() => polls.of("tail").length, PATIENCE).toBe(1);
    expect(polls.of("tail")[0]).not.toContain("ORD-1021");
    await decide("ORD-NEW-1");
    await decide("ORD-NEW-2", "poll");
    await expect.poll(() => all.of("entry").join(), PATIENCE).toContain("ORD-NEW-2");
    await expect.poll(() => polls.of("entry").join(), PATIENCE).toContain("ORD-NEW-2");
    expect(all.of("entry").filter((text) => text.includes("ORD-NEW-1"))).toHaveLength(1);
    expect(polls.of("entry").join()).not.toContain("ORD-NEW-1");
    await expect.poll(() => all.of("state").join(), PATIENCE).toContain("Fresh?");
  });

  it("may be kept by nobody on the way", async () => {
    const { response } = await listen();
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(response.headers.get("cache-control")).toBe("no-cache, no-transform");
    expect(response.headers.get("x-accel-buffering")).toBe("no");
  });

  it("costs the database no more with ten tabs than with one, and nothing with none", async () => {
    /** Statements between one frame with the figures and the second next. */
    const countForTwoStates = async (tabs: Awaited<ReturnType<typeof listen>>[]) => {
      const states = () => Math.min(...tabs.map(({ of }) => of("state").length));
      await expect.poll(states, PATIENCE).toBe(1);
      const before = statements;
      await expect.poll(states, PATIENCE).toBe(3);
      return statements - before;
    };
    const one = await listen();
    const ofOne = await countForTwoStates([one]);
    one.leave();
    const ten = await Promise.all(Array.from({ length: 10 }, () => listen()));
    const ofTen = await countForTwoStates(ten);
    // A look more or less lies between two frames, depending on when they come.
    expect(ofTen).toBeLessThanOrEqual(ofOne + 2);
    for (const { leave } of ten) leave();
    // The look under way ends, and no other begins: longer than two looks nothing is asked.
    let last = Number.NaN;
    const isQuiet = () => {
      const before = last;
      last = statements;
      return last === before;
    };
    await expect.poll(isQuiet, { ...PATIENCE, interval: 2_500 }).toBe(true);
  });

  it("ends when the process shuts down, and takes nobody in from then on", async () => {
    const tab = await listen();
    await expect.poll(() => tab.of("tail").length, PATIENCE).toBe(1);
    shutdown.abort();
    await expect.poll(async () => (await fetch(`${server.url}/ops/updates`)).status, PATIENCE).toBe(503);
  });
});
