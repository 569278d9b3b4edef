import type { Command } from "commander";
import { ConfigurationError } from "../../../domain/errors.ts";
import { millisFromInstant } from "../../../domain/order/instant.ts";
import type { Pool } from "../../../database/database.ts";
import { requestRefetches } from "../../../poll/ledger/refetches.sql.ts";
import { readStandings } from "../../../health/standing.sql.ts";
import type { Standing } from "../../../health/standing.sql.ts";
import { findOrders } from "../../../ops/orders/order.sql.ts";
import { assertKnown, audited, noSource, withMirror } from "../../input/session.ts";
import { formatSpan, printJson, printLine, printNotice } from "../../output/terminal.ts";
import { shellWord } from "../../../domain/shellWord.ts";

interface Options {
  readonly source?: string;
  readonly json?: boolean;
}

/** If the last cycle ended more than this many intervals ago, nobody is polling. */
const INTERVALS_UNTIL_IDLE = 3;

export function register(program: Command): void {
  program
    .command("refetch")
    .argument("<reference>", "the provider's reference, or the externalOrderId")
    .description("read one order again from the provider")
    .option("--source <id>", "the source; required for an order that is not in the mirror yet")
    .option("--json", "print JSON")
    .action(async (text: string, options: Options) => {
      const result = await withMirror(({ pool, config }) =>
        refetch(pool, {
          text,
          sourceId: options.source ?? null,
          intervalSeconds: config.pollIntervalSeconds,
        }),
      );
      if (options.json === true) {
        printJson(result);
        return;
      }
      for (const { sourceId, reference, when } of result) {
        printLine(`Order ${reference} of source ${sourceId} will be read again: ${when}.`);
      }
      printNotice(`Next: order-mirror tail --order ${shellWord(text)}`);
    });
}

async function refetch(
  pool: Pool,
  { text, sourceId, intervalSeconds }: { text: string; sourceId: string | null; intervalSeconds: number },
): Promise<{ sourceId: string; reference: string; when: string; polled: boolean }[]> {
  const sources = await readStandings(pool);
  const found = await findOrders(pool, { text, sourceId });
  const targets = found.length > 0 ? found : unknownOrder(text, sourceId, sources);
  for (const order of targets) {
    const { sourceId: owner, reference } = order;
    await audited(pool, { action: "refetch", sourceId: owner, target: reference }, () =>
      requestRefetches(pool, {
        sourceId: owner,
        references: [reference],
        reason: "requested by a person",
      }),
    );
  }
  return targets.map(({ sourceId: owner, reference }) => {
    const source = sources.find((each) => each.sourceId === owner);
    return { sourceId: owner, reference, ...describeWhen(source, intervalSeconds) };
  });
}

/** An order that the mirror lacks can be requested too, if its source is known. */
function unknownOrder(text: string, sourceId: string | null, sources: readonly Standing[]) {
  const known = sources.map((source) => source.sourceId);
  if (known.length === 0) throw noSource();
  if (sourceId === null) {
    throw new ConfigurationError(`The mirror has no order ${text}.`, {
      fix: `Name its source with --source: ${known.join(", ")}.`,
    });
  }
  assertKnown(sourceId, known);
  return [{ sourceId, reference: text }];
}

function describeWhen(source: Standing | undefined, intervalSeconds: number) {
  const ended = source?.lastCycleEndedAt ?? null;
  if (source !== undefined && source.pausedAt !== null) {
    const resume = `order-mirror source resume ${source.sourceId}`;
    return { polled: false, when: `as soon as polling resumes (it is paused; ${resume})` };
  }
  const agoMs = source === undefined || ended === null ? Infinity : millisFromInstant(source.now - ended);
  if (agoMs > INTERVALS_UNTIL_IDLE * intervalSeconds * 1_000) {
    const last = ended === null ? "it has never been polled" : `the last poll ended ${formatSpan(agoMs)} ago`;
    return { polled: false, when: `as soon as a poller runs (${last}; start one with order-mirror poller)` };
  }
  return {
    polled: true,
    when: `by the leading poller in its next cycle, within ${formatSpan(intervalSeconds * 1_000)}`,
  };
}
