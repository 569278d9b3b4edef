import { formatInstant } from "../../domain/order/instant.ts";
import { commandOn } from "../../domain/shellWord.ts";
import type { SourceFacts } from "../../health/condition.ts";
import { describeRefusals, describeWebhooks } from "../../health/eventConditions.ts";
import { readFailing } from "../../poll/ledger/refetches.sql.ts";
import { ProviderError } from "../../provider/errors.ts";
import { ok, warning } from "./check.ts";
import type { Check, Remark } from "./check.ts";

/** The conditions that hold or begin to, each under the name of its area; and how far each source is complete. */
export const mirrorCheck: Check = {
  name: "mirror",
  async run(patient) {
    const { facts, holding, beginning } = await patient.health();
    return [
      ...holding.map(({ condition, cause, remedy }): Remark => {
        const level = condition.severity === "critical" ? "problem" : "warning";
        return { check: condition.area, level, sentence: cause, fix: remedy, condition: condition.name };
      }),
      ...beginning.map(({ condition, cause, remedy }) => ({
        ...warning(`Watching: ${cause}`, remedy),
        check: condition.area,
      })),
      ...(facts.sources.length === 0 ? [ok("There is no source yet.")] : []),
      ...facts.sources.flatMap(describeSource),
    ];
  },
};

function describeSource(source: SourceFacts): Remark[] {
  const { sourceId, safeThrough, wrongSignatures, configured } = source;
  const complete =
    safeThrough === null
      ? "not verified yet; expect the first proof within a quarter of an hour"
      : `complete up to ${formatInstant(safeThrough, 0)}`;
  const forged = wrongSignatures === 0 ? "" : ` ${describeRefusals(source)}.`;
  const silent = warning(
    `${sourceId}: webhook secrets are set, but no event has ever arrived.`,
    `Enter https://your-host/webhooks/${sourceId} at the provider (Developers, Webhooks; Advanced plan).`,
  );
  const isSilent = configured === true && describeWebhooks(source) === "never-seen";
  return [ok(`${sourceId}: ${complete}.${forged}`), ...(isSilent ? [{ ...silent, check: "events" }] : [])];
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
    if (more === 0) return named;
    return [...named, warning(`${more} more orders cannot be read singly either.`, "See /ops/refetches.")];
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
