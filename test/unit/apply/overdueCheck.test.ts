import { expect, it } from "vitest";
import { UnavailableError } from "../../../src/domain/errors.ts";
import { makeOverdueCheck } from "../../../src/apply/overdueCheck.ts";
import type { Clock } from "../../../src/process/clock.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";

/** A clock whose sleeps end when the test ends them. */
function makeSteppedClock() {
  const sleepers: (() => void)[] = [];
  const clock: Clock = {
    now: () => 0n,
    monotonicMs: () => 0,
    sleep: (_ms, signal) =>
      new Promise((resolve, reject) => {
        sleepers.push(resolve);
        signal?.addEventListener("abort", () => reject(signal.reason as Error));
      }),
  };
  return { clock, wake: () => sleepers.splice(0).forEach((wake) => wake()), asleep: () => sleepers.length };
}

/** An inbox with `pending` positions, of which another worker holds `held`. */
function makeInbox(pending: number[], held: readonly number[] = []) {
  const applied: number[] = [];
  return {
    applied,
    findFirstPending: ({ afterSeq }: { afterSeq: number }) =>
      Promise.resolve((pending.find((seq) => seq > afterSeq) ?? 1_001) - 1),
    takeOverdue: ({ afterSeq, limit }: { afterSeq: number; limit: number }) =>
      Promise.resolve(pending.filter((seq) => seq > afterSeq).slice(0, limit)),
    applyEvents: (seqs: readonly number[]) => {
      const mine = seqs.filter((seq) => !held.includes(seq));
      applied.push(...mine);
      for (const seq of mine) pending.splice(pending.indexOf(seq), 1);
      return Promise.resolve(mine);
    },
  };
}

const positions = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

const makeCheck = (inbox: ReturnType<typeof makeInbox>, clock = makeSteppedClock().clock) =>
  makeOverdueCheck({ ...inbox, clock, logger: silentLogger });

it.each<[string, readonly number[], number]>([
  ["everything, however many queries that takes", [], 501],
  ["all but what another worker holds, which it does not request repeatedly", positions(300), 201],
])("the overdue check applies %s", async (_, held, decided) => {
  const inbox = makeInbox(positions(501), held);
  const check = makeCheck(inbox);
  expect(await check.runOnce()).toBe(decided);
  expect(inbox.applied).toEqual(positions(501).slice(held.length));
  expect(await check.runOnce()).toBe(0);
});

it("the overdue check begins at the first event that waits, and at all of them each minute", async () => {
  const inbox = makeInbox([900, 901], [900]);
  const begun: number[] = [];
  const check = makeCheck({
    ...inbox,
    takeOverdue: (query) => {
      begun.push(query.afterSeq);
      return inbox.takeOverdue(query);
    },
  });
  for (let pass = 0; pass < 31; pass += 1) await check.runOnce();
  expect(begun).toEqual([0, ...Array.from({ length: 29 }, () => 899), 0]);
});

it("the overdue check runs again after an outage, and ends when it is closed", async () => {
  const inbox = makeInbox(positions(3));
  const stepped = makeSteppedClock();
  let outages = 2;
  const applyEvents = (seqs: readonly number[]) =>
    (outages -= 1) < 0 ? inbox.applyEvents(seqs) : Promise.reject(new UnavailableError("Postgres is away."));
  const check = makeCheck({ ...inbox, applyEvents }, stepped.clock);
  check.start();
  await expect
    .poll(() => {
      stepped.wake();
      return inbox.applied.length;
    })
    .toBe(3);
  await expect.poll(stepped.asleep).toBe(1);
  await check.close();
});
