import { formatInstant, instantFromMillis } from "../../domain/order/instant.ts";
import { FIGURE_COUNT_MAX, readSourceFigures } from "../../health/readMetrics.sql.ts";
import type { SourceFigures } from "../../health/readMetrics.sql.ts";
import { readTraits } from "../../poll/ledger/providerTraits.sql.ts";
import type { StoredTrait } from "../../poll/ledger/providerTraits.sql.ts";
import { formatSpan } from "../output/terminal.ts";
import { describeTraits, nameTrait } from "../input/traits.ts";
import { ok, pairSources, problem, warning } from "./check.ts";
import type { Check, Patient, Remark } from "./check.ts";

/** Longer than a sweep of the worker needs to find an event that no job brought. */
const PENDING_HARMFUL_SECONDS = 60;
/** Cycles that may be missed before polling counts as stopped, and a margin for their length. */
const INTERVALS_UNTIL_IDLE = 3;
const IDLE_MARGIN_SECONDS = 15;
/** The delayed sweep, which alone moves safe_through, runs every two minutes over what is a quarter of an hour old. */
const SAFE_THROUGH_LATE_SECONDS = 3_600;

/** A check that says something on each source, from its figures. */
function makeSourceCheck(name: string, judge: (figures: SourceFigures, patient: Patient) => Remark[]): Check {
  return {
    name,
    needs: "schema",
    async run(patient) {
      const paired = pairSources(patient, await readSourceFigures(patient.pool));
      if (paired.length === 0) return [ok("There is no source yet.")];
      return paired.flatMap(({ figures }) => judge(figures, patient));
    },
  };
}

export const workerCheck = makeSourceCheck("worker", ({ sourceId, pending, oldestPendingAt, now }) => {
  if (pending === 0 || oldestPendingAt === null) return [ok(`${sourceId}: no event waits.`)];
  const age = now - oldestPendingAt;
  const waiting = `${sourceId}: ${describeCount(pending)} events wait, the oldest for ${formatSpan(Math.max(0, age) * 1_000)}`;
  if (age < PENDING_HARMFUL_SECONDS) return [ok(`${waiting}.`)];
  return [
    problem(
      `${waiting}: no worker applies them.`,
      "Start `order-mirror worker`, or restart the one that hangs; its log says why.",
    ),
  ];
});

export const pollerCheck = makeSourceCheck("poller", (figures, { config }) => {
  const { sourceId, lastCycleEndedAt, lastError, now } = figures;
  if (lastCycleEndedAt === null) {
    return [problem(`${sourceId}: it was never polled.`, "Start `order-mirror poller`.")];
  }
  const age = now - lastCycleEndedAt;
  if (age > INTERVALS_UNTIL_IDLE * config.pollIntervalSeconds + IDLE_MARGIN_SECONDS) {
    return [
      problem(
        `${sourceId}: the last poll ended ${formatSpan(age * 1_000)} ago.`,
        "Start `order-mirror poller`, or look into the log of the one that runs.",
      ),
    ];
  }
  if (lastError !== null) {
    return [
      problem(
        `${sourceId}: the last poll failed: ${lastError.replace(/\.$/, "")}.`,
        "It is tried again by itself; when it goes on, see the log of the poller.",
      ),
    ];
  }
  return [ok(`${sourceId}: the last poll ended ${formatSpan(Math.max(0, age) * 1_000)} ago.`)];
});

export const coverageCheck = makeSourceCheck("coverage", (figures) => {
  const { sourceId, gaps, oldestGap, safeThrough, now } = figures;
  if (oldestGap !== null) {
    const [from, to] = [showMoment(oldestGap.since), showMoment(oldestGap.until)];
    const more = gaps > 1 ? `, and ${gaps - 1} more` : "";
    return [
      problem(
        `${sourceId}: changes between ${from} and ${to} were never read for certain${more}.`,
        `order-mirror backfill --source ${sourceId} --from ${from} --to ${to}`,
      ),
    ];
  }
  if (safeThrough === null) {
    return [
      warning(
        `${sourceId}: nothing is proved to be complete yet.`,
        "Leave the poller running: the first proof comes within a quarter of an hour.",
      ),
    ];
  }
  const age = now - safeThrough;
  if (age > SAFE_THROUGH_LATE_SECONDS) {
    return [
      warning(
        `${sourceId}: it is proved to be complete only up to ${showMoment(safeThrough)}.`,
        "Leave the poller running; when this does not move, see its log.",
      ),
    ];
  }
  return [ok(`${sourceId}: complete up to ${showMoment(safeThrough)}, without a gap.`)];
});

/** For so long a change of the provider is worth a word. */
const CHANGE_SHOWN_SECONDS = 86_400;

export const traitsCheck: Check = {
  name: "provider's ways",
  needs: "schema",
  async run(patient) {
    const paired = pairSources(patient, await readSourceFigures(patient.pool));
    const stored = await readTraits(patient.pool);
    return paired.flatMap(({ figures }) => {
      const traits = stored.filter(({ sourceId }) => sourceId === figures.sourceId);
      return judgeTraits(figures, traits);
    });
  },
};

function judgeTraits({ sourceId, now }: SourceFigures, traits: readonly StoredTrait[]): Remark[] {
  if (traits.length === 0)
    return [ok(`${sourceId}: nothing was measured yet; the poller does it by itself.`)];
  const changed = traits.filter(
    ({ changedAt }) => changedAt !== null && now - changedAt <= CHANGE_SHOWN_SECONDS,
  );
  if (changed.length === 0) return [ok(`${sourceId}: ${describeTraits(traits)}.`)];
  return changed.map(({ trait, value, previous, changedAt }) =>
    warning(
      `${sourceId}: the provider's ${nameTrait(trait)} changed from "${previous}" to "${value}" at ${showMoment(changedAt ?? now)}.`,
      "Polling copes with it; ask the provider whether it was meant.",
    ),
  );
}

export const quarantineCheck = makeSourceCheck("quarantine", ({ sourceId, quarantined }) => {
  if (quarantined === 0) return [ok(`${sourceId}: empty.`)];
  return [
    problem(
      `${sourceId}: ${describeCount(quarantined)} could not be applied and wait for a person.`,
      `Look at them on /ops, mend the cause, then: order-mirror replay --quarantine --source ${sourceId} --dry-run`,
    ),
  ];
});

function describeCount(count: number): string {
  return count > FIGURE_COUNT_MAX ? `more than ${FIGURE_COUNT_MAX}` : String(count);
}

function showMoment(seconds: number): string {
  return formatInstant(instantFromMillis(Math.round(seconds * 1_000)), 0);
}
