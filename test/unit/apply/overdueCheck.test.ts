import { expect, it } from "vitest";
import { makeOverdueCheck } from "../../../src/apply/overdueCheck.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { makeSimulatedClock } from "../../support/virtual/simulatedClock.ts";

/** A check of an inbox with `pending` positions, of which another worker holds `held`. */
function makeCheck(pending: number[], held: readonly number[] = []) {
  const applied: number[] = [];
  const begun: number[] = [];
  const { runOnce } = makeOverdueCheck({
    findFirstPending: ({ afterSeq }) => Promise.resolve((pending.find((seq) => seq > afterSeq) ?? 1_001) - 1),
    takeOverdue({ afterSeq, limit }) {
      begun.push(afterSeq);
      return Promise.resolve(pending.filter((seq) => seq > afterSeq).slice(0, limit));
    },
    applyEvents(seqs) {
      const mine = seqs.filter((seq) => !held.includes(seq));
      applied.push(...mine);
      for (const seq of mine) pending.splice(pending.indexOf(seq), 1);
      return Promise.resolve(mine);
    },
    clock: makeSimulatedClock(),
    logger: silentLogger,
  });
  return { runOnce, applied, begun };
}

const positions = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

it.each<[string, readonly number[], number]>([
  ["everything, however many queries that takes", [], 501],
  ["all but what another worker holds, which it does not request repeatedly", positions(300), 201],
])("the overdue check applies %s", async (_, held, decided) => {
  const { runOnce, applied } = makeCheck(positions(501), held);
  expect(await runOnce()).toBe(decided);
  expect(applied).toEqual(positions(501).slice(held.length));
  expect(await runOnce()).toBe(0);
});

it("the overdue check begins at the first event that waits, and at all of them each minute", async () => {
  const { runOnce, begun } = makeCheck([900, 901], [900]);
  for (let pass = 0; pass < 31; pass += 1) await runOnce();
  expect(begun).toEqual([0, ...Array.from({ length: 29 }, () => 899), 0]);
});
