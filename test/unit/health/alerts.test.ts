import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { ALERTS } from "../../../src/health/alerts.ts";
import type { AlertFacts } from "../../../src/health/alerts.ts";

const well: AlertFacts = {
  sourceId: "live",
  now: 10_000,
  safeThrough: 9_500,
  lastCycleEndedAt: 9_990,
  lastError: null,
  oldestPendingAt: null,
  quarantined: 0,
  gaps: 0,
  lastBreachAt: null,
  lastEventAt: 9_000,
  lostSinceLastEvent: 0,
  traitChangedAt: null,
  overlapSeconds: 60,
  lateTailSeconds: 0,
};
const firing = (change: Partial<AlertFacts>) =>
  ALERTS.filter(({ holds }) => holds({ ...well, ...change })).map(({ name }) => name);

it("is silent when all is well, and before anything has happened", () => {
  expect(firing({})).toEqual([]);
  expect(firing({ safeThrough: null, lastCycleEndedAt: null, lastEventAt: null })).toEqual([]);
});

it.each([
  [{ lastCycleEndedAt: 9_820 }, { lastCycleEndedAt: 9_819 }, "OrderMirrorNotPolled"],
  [{ lastError: null }, { lastError: "x" }, "OrderMirrorPollFailing"],
  [{ safeThrough: 6_400 }, { safeThrough: 6_399 }, "OrderMirrorIncomplete"],
  [{ gaps: 0 }, { gaps: 1 }, "OrderMirrorGaps"],
  [{ lastBreachAt: 9_999 - 86_400 }, { lastBreachAt: 10_000 - 86_400 }, "OrderMirrorProofTakenBack"],
  [{ oldestPendingAt: 9_700 }, { oldestPendingAt: 9_699 }, "OrderMirrorEventsWait"],
  [{ quarantined: 0 }, { quarantined: 1 }, "OrderMirrorQuarantine"],
  [{ traitChangedAt: 9_999 - 86_400 }, { traitChangedAt: 10_000 - 86_400 }, "OrderMirrorProviderChanged"],
  [{ lateTailSeconds: 45 }, { lateTailSeconds: 46 }, "OrderMirrorLateArrivals"],
  [
    { lastEventAt: 6_000, lostSinceLastEvent: 2 },
    { lastEventAt: 6_000, lostSinceLastEvent: 3 },
    "OrderMirrorEventsStopped",
  ],
  [
    { lastEventAt: 6_400, lostSinceLastEvent: 3 },
    { lastEventAt: 6_399, lostSinceLastEvent: 3 },
    "OrderMirrorEventsStopped",
  ],
])("%j is fine, %j is %s", (fine, wrong, name) => {
  expect(firing(fine)).toEqual([]);
  expect(firing(wrong)).toEqual([name]);
});

it("uses the names and severities of the Prometheus rules", () => {
  const file = path.resolve(import.meta.dirname, "../../../config/prometheus/alerts.yml");
  const rules = readFileSync(file, "utf8").split(/^ {6}- alert: /m);
  for (const { name, severity } of ALERTS) {
    const rule = rules.find((each) => each.startsWith(`${name}\n`));
    expect({ name, found: rule?.includes(`severity: ${severity}\n`) }).toEqual({ name, found: true });
  }
});
