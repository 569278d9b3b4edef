import type { Command } from "commander";
import { formatInstant } from "../../../domain/order/instant.ts";
import { findOrders, readTimeline } from "../../../ops/orders/order.sql.ts";
import type { FoundOrder, TimelineEntry } from "../../../ops/orders/order.sql.ts";
import type { Pool } from "../../../database/database.ts";
import {
  ProblemsFoundError,
  alignColumns,
  makePaint,
  printJson,
  printLine,
  printNotice,
} from "../../output/terminal.ts";
import { chooseSource, withMirror } from "../../input/session.ts";

const ENTRIES_MAX = 200;
const SHOWN_DIGITS = 3;

const REASONS: Readonly<Record<TimelineEntry["verdict"], string>> = {
  applied: "newer than what was known",
  corrected: "read: the provider shows this state, which refutes a later claim",
  confirmed: "read again: the same",
  stale: "older than what was known",
  refuted: "a read had already shown otherwise",
  duplicate: "this state was already known",
  ignored: "nothing to apply",
  quarantined: "could not be applied",
  gone: "the provider has no such order",
};

export function register(program: Command): void {
  program
    .command("order")
    .argument("<reference>", "the provider's reference, or the externalOrderId")
    .description(
      "show one order: every event and every read with news, when it arrived, what was decided, and why",
    )
    .option("--source <id>", "search only this source")
    .option("--json", "print JSON")
    .action(async (text: string, options: { source?: string; json?: boolean }) => {
      const sourceId = options.source ?? null;
      const explained = await withMirror(({ pool }) => explain(pool, { text, sourceId }));
      const found = explained.map(({ order, timeline }) => ({
        order,
        timeline: timeline.slice(-ENTRIES_MAX),
      }));
      if (explained.some(({ timeline }) => timeline.length > ENTRIES_MAX))
        printNotice(`Only the newest ${ENTRIES_MAX} are shown; the older ones: reporting.order_history.`);
      if (options.json === true) printJson(found);
      if (found.length === 0) {
        printNotice(`No order ${text} in the mirror${sourceId === null ? "" : ` of source ${sourceId}`}.`);
        printNotice(
          "  fix: check the reference; `order-mirror status` shows up to when the mirror is complete.",
        );
        throw new ProblemsFoundError("no such order");
      }
      if (options.json !== true) found.forEach(({ order, timeline }) => printOrder(order, timeline));
    });
}

async function explain(pool: Pool, wanted: { text: string; sourceId: string | null }) {
  if (wanted.sourceId !== null) await chooseSource(pool, wanted.sourceId);
  const orders = await findOrders(pool, wanted);
  return Promise.all(
    orders.map(async (order) => ({
      order,
      // One more, which shows whether there are older ones.
      timeline: await readTimeline(pool, { ...order, limit: ENTRIES_MAX + 1 }),
    })),
  );
}

function printOrder(order: FoundOrder, timeline: readonly TimelineEntry[]): void {
  const paint = makePaint(process.stdout);
  const name = order.externalOrderId === null ? "" : ` (${order.externalOrderId})`;
  printLine(paint("bold", `Order ${order.reference}${name} · ${order.status}`));
  printLine(
    `source ${order.sourceId} · version ${formatInstant(order.version)} · ${order.revision === 1 ? "1 state" : `${order.revision} states`} · ${order.settled ? "" : "not yet "}verified by a later read`,
  );
  printLine();
  const rows = timeline.map((entry) => [
    entry.version === null ? "–" : formatInstant(entry.version, SHOWN_DIGITS),
    formatInstant(entry.receivedAt ?? entry.seenAt, SHOWN_DIGITS),
    entry.via,
    entry.eventType ?? "",
    entry.status ?? "",
    entry.verdict + (entry.conflict ? " (conflict)" : ""),
    entry.reason ?? REASONS[entry.verdict],
  ]);
  const header = ["changed (provider)", "seen (here)", "via", "event", "status", "decision", "why"];
  const [head = "", ...lines] = alignColumns([header, ...rows]);
  printLine(paint("dim", head));
  for (const line of lines) printLine(line);
}
