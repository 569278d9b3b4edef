import { describe, expect, it } from "vitest";
import { isShort, noteFigures } from "../support/faults/extent.ts";
import type { HoldPoint } from "../support/faults/faultProxy.ts";
import { startFaultWorld } from "../support/faults/faultWorld.ts";
import { canStartRedis } from "../support/servers/redis.ts";

const ROUNDS = isShort ? 1 : 3;
const EVENTS = 20;

const world = await startFaultWorld();
await world.start("web");

async function sendSome(): Promise<(number | null)[]> {
  const answers: (number | null)[] = [];
  for (let sent = 0; sent < EVENTS; sent += 1) answers.push(await world.load.send());
  return answers;
}
const ALL_STORED = Array.from({ length: EVENTS }, () => 200);

const steps: [string, HoldPoint][] = [
  ["before its transaction", { text: "apply-batch", before: "request" }],
  ["between its commit and the end of its job", { text: "apply-batch", before: "answer" }],
];

describe.runIf(canStartRedis)("a killed worker (row 2)", () => {
  it.each(steps)("%s decides every event once", async (step, point) => {
    for (let round = 0; round < ROUNDS; round += 1) {
      expect(await sendSome()).toEqual(ALL_STORED);
      const held = world.lines.postgres.holdAt(point);
      const worker = world.launch("worker");
      await held.reached;
      await worker.stop("SIGKILL");
      held.drop();
    }
    const worker = await world.start("worker");
    await world.audit.expectDecided(world.load.acknowledged);
    await worker.stop();
    noteFigures("2", { step, kills: ROUNDS, acknowledged: world.load.acknowledged.size, lost: 0 });
  });

  it("inside its transaction decides every event once", async () => {
    expect(await sendSome()).toEqual(ALL_STORED);
    const locker = await world.audit.pool.connect();
    await locker.query("begin; lock table mirror.changes in access exclusive mode");
    const worker = world.launch("worker");
    const waiting = () =>
      world.audit.pool.query("select from pg_locks where not granted").then(({ rowCount }) => rowCount);
    await expect.poll(waiting).toBeGreaterThan(0);
    await worker.stop("SIGKILL");
    await locker.query("rollback");
    locker.release();
    const next = await world.start("worker");
    await world.audit.expectDecided(world.load.acknowledged);
    await next.stop();
  });

  it("that was only suspended decides nothing twice when it resumes after another did its work (row 27)", async () => {
    expect(await sendSome()).toEqual(ALL_STORED);
    const held = world.lines.postgres.holdAt({ text: "apply-batch", before: "request" });
    const zombie = world.launch("worker");
    await held.reached;
    zombie.child.kill("SIGSTOP");
    const other = await world.start("worker");
    await world.audit.expectDecided(world.load.acknowledged);
    held.release();
    zombie.child.kill("SIGCONT");
    expect(await sendSome()).toEqual(ALL_STORED);
    await world.audit.expectDecided(world.load.acknowledged);
    await Promise.all([zombie.stop(), other.stop()]);
  });
});
