import { formatInstant, millisFromInstant } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { Area, SourceFacts } from "../../health/condition.ts";
import { describeRefusals, describeWebhooks } from "../../health/eventConditions.ts";
import type { Health } from "../../health/health.ts";
import type { Holding } from "../../health/judge.ts";
import { formatSpan } from "../output/terminal.ts";
import { ok, remarkHolding, warning } from "./check.ts";
import type { Check, Patient, Remark } from "./check.ts";
import { readFailing } from "../../poll/ledger/refetches.sql.ts";
import { ProviderError } from "../../provider/errors.ts";
import { commandOn } from "../../domain/shellWord.ts";

/** Reports the conditions of an area, and the healthy state of each source without any. */
function makeSourceCheck(name: string, area: Area, describe: (source: SourceFacts) => Remark): Check {
  return {
    name,
    async run(patient) {
      const { facts, ...judged } = await patient.health();
      const { subjects, remarks } = remarkOn(area, judged);
      const fine = facts.sources.filter(({ sourceId }) => !subjects.includes(sourceId));
      if (facts.sources.length === 0) return [ok("There is no source yet.")];
      return [...remarks, ...fine.map(describe)];
    },
  };
}

/** Reports the conditions of an area that does not concern sources, or that none holds. */
function makeServerCheck(name: string, area: Area, fine: (patient: Patient) => string): Check {
  return {
    name,
    async run(patient) {
      const { remarks } = remarkOn(area, await patient.health());
      return remarks.length > 0 ? remarks : [ok(fine(patient))];
    },
  };
}

/** The conditions of an area that hold or begin to, and what they are about. */
function remarkOn(area: Area, { holding, beginning }: Pick<Health, "holding" | "beginning">) {
  const isIts = ({ condition }: Holding) => condition.area === area;
  const [held, begun] = [holding.filter(isIts), beginning.filter(isIts)];
  return {
    subjects: [...held, ...begun].map(({ subject }) => subject),
    remarks: [
      ...held.map(remarkHolding),
      ...begun.map(({ cause, remedy }) => warning(`Watching: ${cause}`, remedy)),
    ],
  };
}

export const commitCheck = makeServerCheck("commits", "database", () => "Postgres commits.");
export const queueCheck = makeServerCheck("queue", "queue", ({ config }) =>
  config.redisUrls.length === 0 ? "The queue is in Postgres." : "Redis answers and never evicts jobs.",
);
export const outgoingCheck = makeServerCheck("outgoing webhooks", "outgoing", () => "No endpoint fails.");

export const eventsCheck = makeSourceCheck("events", "events", (source) => {
  const { sourceId, lost, lastEventAt, now, wrongSignatures } = source;
  const last = lastEventAt === null ? "" : describeAgo(now, lastEventAt);
  const forged = wrongSignatures === 0 ? "" : ` ${describeRefusals(source)}.`;
  const health = describeWebhooks(source);
  switch (health) {
    case "not-configured":
      return ok(`${sourceId}: polled only.`);
    case "never-seen":
      if (source.configured === null) return ok(`${sourceId}: no event has ever arrived.`);
      return warning(
        `${sourceId}: webhook secrets are set, but no event has ever arrived.`,
        `Enter https://your-host/webhooks/${sourceId} at the provider (Developers, Webhooks; Advanced plan).`,
      );
    case "working":
      return ok(`${sourceId}: the last event arrived ${last}, and none was lost in 24 h.${forged}`);
    case "without-secret":
      return ok(`${sourceId}: every call is answered 404.`);
    case "losing":
    case "refused":
    case "stopped":
      return ok(
        `${sourceId}: the last event arrived ${last}; ${lost} were lost in 24 h, and polling repaired them.${forged}`,
      );
  }
});

export const workerCheck = makeSourceCheck(
  "worker",
  "worker",
  ({ sourceId, pending, oldestPendingAt, now }) =>
    oldestPendingAt === null
      ? ok(`${sourceId}: no event is waiting.`)
      : ok(
          `${sourceId}: ${pending} events are waiting, the oldest arrived ${describeAgo(now, oldestPendingAt)}.`,
        ),
);

export const pollerCheck = makeSourceCheck(
  "poller",
  "poller",
  ({ sourceId, lastCycleEndedAt, lastError, now }) => {
    if (lastCycleEndedAt === null) return ok(`${sourceId}: not polled yet.`);
    const trouble = lastError === null ? "" : `, with a recent error: ${lastError}`;
    return ok(`${sourceId}: the last poll ended ${describeAgo(now, lastCycleEndedAt)}${trouble}.`);
  },
);

export const coverageCheck = makeSourceCheck("coverage", "coverage", ({ sourceId, safeThrough, gaps }) => {
  if (safeThrough === null)
    return ok(`${sourceId}: not verified yet; expect the first proof within a quarter of an hour.`);
  const exact = formatInstant(safeThrough, 0);
  if (gaps > 0) return ok(`${sourceId}: complete up to ${exact}; new gaps are being read.`);
  return ok(`${sourceId}: complete up to ${exact}, without gaps.`);
});

export const quarantineCheck = makeSourceCheck("quarantine", "quarantine", ({ sourceId }) =>
  ok(`${sourceId}: empty.`),
);

function describeAgo(now: Instant, at: Instant): string {
  return `${formatSpan(Math.max(0, millisFromInstant(now - at)))} ago`;
}

const NAMED_MAX = 5;
const NOT_FOUND_CODE = "order_not_found";

/** The orders whose single read failed more than once in a row, with the provider's answer. */
export const singleReadCheck: Check = {
  name: "single reads",
  async run({ pool, config }) {
    const all = await readFailing(pool);
    const known = config.sources.map(({ sourceId }) => sourceId);
    const failing = all.filter(({ sourceId }) => known.length === 0 || known.includes(sourceId));
    if (failing.length === 0) return [ok("No single read keeps failing.")];
    const named = failing
      .slice(0, NAMED_MAX)
      .map(({ sourceId, reference, failures, lastError }) =>
        warnOf(sourceId, reference, `${lastError}, ${failures} times in a row`),
      );
    const more = failing.length - named.length;
    return more === 0
      ? named
      : [...named, warning(`${more} more orders cannot be read singly either.`, "See /ops/refetches.")];
  },
};

/**
 * The remark for an order that cannot be read singly although the key and the address work. Undefined if the order is
 * not the cause: the provider refuses the key, or says that it does not know the order.
 */
export function judgeSingleRead(
  error: unknown,
  { sourceId, reference }: { sourceId: string; reference: string },
): Remark | undefined {
  if (!(error instanceof ProviderError)) return undefined;
  if (error.failure === "key_refused" || error.code === NOT_FOUND_CODE) return undefined;
  return warnOf(sourceId, reference, error.message);
}

function warnOf(sourceId: string, reference: string, answer: string): Remark {
  return warning(
    `${sourceId}: order ${reference} cannot be read singly: ${answer}.`,
    `Ask the provider about this order; lists and all other orders are read without it. To retry now: ${commandOn(`refetch --source ${sourceId}`, reference)}`,
  );
}
