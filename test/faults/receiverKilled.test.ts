import { describe, expect, it } from "vitest";
import { isShort, noteFigures } from "../support/faults/extent.ts";
import type { FaultProxy, HoldPoint } from "../support/faults/faultProxy.ts";
import { startFaultWorld, type FaultWorld } from "../support/faults/faultWorld.ts";
import { canStartRedis } from "../support/servers/redis.ts";

const ROUNDS = isShort ? 1 : 5;
/** Acknowledged events before each kill. */
const BUSY_EVENTS = 50;

const world = await startFaultWorld();

/** Where the receiver dies. The statement and the job are named on the wire, so the step is known exactly. */
const steps: [string, (lines: FaultWorld["lines"]) => FaultProxy, HoldPoint][] = [
  ["before its commit", ({ postgres }) => postgres, { text: "insert-events", before: "request" }],
  ["between commit and 200", ({ postgres }) => postgres, { text: "insert-events", before: "answer" }],
  ["between 200 and enqueue", ({ redis }) => redis, { text: '{"seqs":[', before: "request" }],
];

describe.runIf(canStartRedis)("a receiver killed under load (rows 1, 12)", () => {
  it.each(steps)("%s loses no acknowledged event", async (step, choose, point) => {
    const line = choose(world.lines);
    const { load } = world;
    const unknownBefore = load.answers["unknown"] ?? 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      const web = await world.start("web");
      load.start();
      await load.more(BUSY_EVENTS);
      const held = line.holdAt(point);
      await held.reached;
      await web.stop("SIGKILL");
      held.drop();
      await load.stop();
    }
    const unknown = (load.answers["unknown"] ?? 0) - unknownBefore;
    // A kill that cut off no request would prove nothing.
    expect(unknown).toBeGreaterThan(0);
    const web = await world.start("web");
    const worker = await world.start("worker");
    await world.audit.expectDecided(load.acknowledged);
    await load.settle();
    await world.audit.expectDecided(load.acknowledged);
    noteFigures("1", { step, kills: ROUNDS, acknowledged: load.acknowledged.size, unknown, lost: 0 });
    await Promise.all([web.stop(), worker.stop()]);
  });

  it("and one without answers from Postgres responds 503 and stores the retry as the same event", async () => {
    const web = await world.start("web");
    const { load } = world;
    const held = world.lines.postgres.holdAt({ text: "insert-events", before: "answer" });
    const answering = load.send();
    await held.reached;
    expect(await answering).toBe(503);
    held.drop();
    const before = await world.audit.pool.query("select from mirror.inbox");
    await load.settle();
    const after = await world.audit.pool.query("select from mirror.inbox");
    expect(after.rowCount).toBe(before.rowCount);
    await web.stop();
  });
});
