import type { Command } from "commander";
import { ConfigurationError } from "../../domain/errors.ts";
import { describeUnknownName } from "../../domain/unknownName.ts";
import { ORDER_STATUSES } from "../../wire/listParameters.ts";
import { formatInstant } from "../../domain/order/instant.ts";
import { commandOn, shellWord } from "../../domain/shellWord.ts";
import {
  findOrders,
  readOrderSurroundings,
  readTimeline,
  type FoundOrder,
  type TimelineEntry,
} from "../../orders/orderStory.sql.ts";
import { describeException, describeWaitingRead } from "../../orders/openQuestions.ts";
import { readListedOrders } from "../../orders/orderList.sql.ts";
import { VERDICT_SENTENCES } from "../../apply/verdicts.ts";
import type { Pool } from "../../database/database.ts";
import { recordConfiguredSources } from "../../sources/configuredSources.ts";
import { readSource, readSourceIds } from "../../sources/sources.sql.ts";
import { requestRefetches } from "../../poll/refetches.sql.ts";
import { refusedFolder, removeRefusedRequests } from "../../receive/refusedRequests.ts";
import { eraseOrder, previewErasure, readOtherSources } from "../../retention/erasure.sql.ts";
import {
  audited,
  chooseSource,
  isAgreed,
  parseCount,
  parseReference,
  refuseSeveral,
  withMirror,
  type Mirror,
} from "../input/session.ts";
import {
  NoSuchOrderError,
  alignColumns,
  countOf,
  makePaint,
  writeTimes,
  printJson,
  printLine,
  printNotice,
  printTable,
} from "../output/terminal.ts";

const LISTED_DEFAULT = 50;
const LISTED_MAX = 10_000;

interface Options {
  readonly source?: string;
  readonly json?: boolean;
}

/** `orders`, `order`, `refetch` and `erase`: what concerns orders by their names. */
export function register(program: Command): void {
  program
    .command("orders")
    .description("list orders, the latest change first")
    .option("--source <id>", "only this source")
    .option("--status <status>", "only with this status")
    .option("--limit <count>", "at most this many", parseCount(LISTED_MAX), LISTED_DEFAULT)
    .option("--json", "print JSON")
    .action((options: ListOptions) => withMirror(({ pool }) => list(pool, options)));
  const onOrder = (name: string) =>
    program
      .command(name)
      .argument("<reference>", "the provider's reference, or the externalOrderId", parseReference);
  onOrder("order")
    .description(
      "show one order: every event and every read with news, when it arrived, what was decided, and why",
    )
    .option("--source <id>", "search only this source")
    .option("--json", "print JSON")
    .action((text: string, options: Options) => withMirror((mirror) => showOrder(mirror, text, options)));
  onOrder("refetch")
    .description("read one order again from the provider")
    .option("--source <id>", "the source; required for an order that is not in the mirror yet")
    .option("--json", "print JSON")
    .action((text: string, options: Options) => withMirror((mirror) => refetch(mirror, text, options)));
  onOrder("erase")
    .description("erase the personal data of one order for good")
    .option("--source <id>", "the source; required for an order that is not in the mirror")
    .option("--dry-run", "only show what would be erased")
    .option("--yes", "do not ask for confirmation")
    .option("--json", "print JSON")
    .addHelpText("after", ERASE_HELP)
    .action((text: string, options: EraseOptions) => withMirror((mirror) => erase(mirror, text, options)));
}

interface ListOptions extends Options {
  readonly status?: string;
  readonly limit: number;
}

async function list(pool: Pool, { source, status, limit, json }: ListOptions): Promise<void> {
  const sourceId = source === undefined ? null : await chooseSource(pool, source);
  // One more, which shows whether there are others.
  const found = await readListedOrders(pool, {
    sourceId,
    fields: { status },
    mark: null,
    text: null,
    sort: "updated",
    ascending: false,
    after: null,
    limit: limit + 1,
  });
  const orders = found.slice(0, limit);
  // A status that we do not know is right if orders have it.
  if (status !== undefined && found.length === 0 && !(ORDER_STATUSES as readonly string[]).includes(status))
    throw new ConfigurationError(
      `No order has it: ${describeUnknownName("status", status, ORDER_STATUSES)}.`,
    );
  if (json === true) return printJson(orders.map(writeTimes));
  const rows = orders.map((order) => [
    order.sourceId,
    order.reference,
    order.externalOrderId ?? "",
    order.status,
    formatInstant(order.updatedAt, 0),
    order.branch ?? "",
  ]);
  printTable([["source", "reference", "external id", "status", "changed", "branch"], ...rows]);
  if (found.length > limit) printNotice(`There are more; --limit shows up to ${LISTED_MAX}.`);
}

const ENTRIES_MAX = 200;
const SHOWN_DIGITS = 3;

async function showOrder({ pool, config }: Mirror, text: string, options: Options): Promise<void> {
  const sourceId = options.source === undefined ? null : await chooseSource(pool, options.source);
  const orders = await findOrders(pool, { text, sourceId });
  if (orders.length === 0) {
    throw new NoSuchOrderError(
      `No order ${text} in the mirror${sourceId === null ? "" : ` of source ${sourceId}`}.`,
      {
        fix: `check the reference. A new order comes with its first event, or with the next poll (every ${config.pollIntervalSeconds} s): order-mirror tail --order ${shellWord(text)}`,
      },
    );
  }
  // One more, which shows whether there are older ones.
  const readAll = orders.map((order) => readTimeline(pool, { ...order, limit: ENTRIES_MAX + 1 }));
  const timelines = await Promise.all(readAll);
  if (timelines.some(({ length }) => length > ENTRIES_MAX))
    printNotice(`Only the newest ${ENTRIES_MAX} are shown; the older ones: reporting.order_history.`);
  const found = orders.map((order, place) => ({
    order,
    timeline: timelines[place]?.slice(-ENTRIES_MAX) ?? [],
  }));
  if (options.json === true) printJson(found);
  else
    for (const { order, timeline } of found) {
      printOrder(order, timeline);
      const { waitingRead, exception } = await readOrderSurroundings(pool, order);
      if (exception !== null)
        printNotice(`"Complete up to" excludes this order, because ${describeException(exception)}.`);
      if (waitingRead !== null) printNotice(describeWaitingRead(waitingRead).replaceAll("\u00a0", " "));
    }
}

function printOrder(order: FoundOrder, timeline: readonly TimelineEntry[]): void {
  const paint = makePaint(process.stdout);
  const name = order.externalOrderId === null ? "" : ` (${order.externalOrderId})`;
  printLine(paint("bold", `Order ${order.reference}${name} · ${order.status}`));
  printLine(
    `source ${order.sourceId} · version ${formatInstant(order.version)} · ${countOf(order.revision, "state")} · ${order.settled ? "" : "not yet "}verified by a later read`,
  );
  printLine();
  const rows = timeline.map((entry) => [
    entry.version === null ? "–" : formatInstant(entry.version, SHOWN_DIGITS),
    formatInstant(entry.receivedAt ?? entry.seenAt, SHOWN_DIGITS),
    entry.via,
    entry.eventType ?? "",
    entry.status ?? "",
    entry.verdict + (entry.conflict ? " (conflict)" : ""),
    entry.reason ?? VERDICT_SENTENCES[entry.verdict],
  ]);
  const header = ["changed (provider)", "seen (here)", "via", "event", "status", "decision", "why"];
  const [head = "", ...lines] = alignColumns([header, ...rows]);
  printLine(paint("dim", head));
  for (const line of lines) printLine(line);
}

async function refetch({ pool, config }: Mirror, text: string, options: Options): Promise<void> {
  const known = await findOrders(pool, { text, sourceId: options.source ?? null });
  if (known.length === 0) await recordConfiguredSources(pool, config);
  const asked = known.length > 0 ? known : [await nameUnknown(pool, text, options.source)];
  for (const { sourceId, reference } of asked)
    await audited(pool, { action: "refetch", sourceId, target: reference }, () =>
      requestRefetches(pool, { sourceId, references: [reference], reason: "requested by a person" }),
    );
  if (options.json === true)
    return printJson(asked.map(({ sourceId, reference }) => ({ sourceId, reference })));
  for (const { sourceId, reference } of asked) {
    const isPaused = (await readSource(pool, sourceId))?.isPaused === true;
    const when = isPaused ? "once its polling is resumed" : "by the leading poller's next cycle";
    printLine(`Order ${reference} of source ${sourceId} will be read again ${when}.`);
  }
  printNotice(`Next: order-mirror tail --order ${shellWord(text)}`);
}

/** An order that the mirror lacks can be named, too, if its source is: it may arrive later. */
async function nameUnknown(pool: Pool, text: string, named: string | undefined) {
  const known = await readSourceIds(pool);
  if (named !== undefined || known.length === 0)
    return { sourceId: await chooseSource(pool, named), reference: text };
  throw new NoSuchOrderError(`No order ${text} in the mirror.`, {
    fix: `Check the reference; or name its source with --source: ${known.join(", ")}.`,
  });
}

interface EraseOptions extends Options {
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

const ERASE_HELP = `
Reference, status, times, fleet and branch stay, so that counts remain true. Everything else is removed from orders, history,
events and quarantine, and does not return with a webhook, a read or a replay. This cannot be undone.
Input that names no order is not searched: it is removed after EVENTS_KEPT_FOR, or after 30 days.
Requests that CAPTURE_REFUSED stored under this DATA_DIR are removed, whomever they are about; web on another machine keeps its own for
at most a day.
Copies outside the database stay: at the provider, in systems that were notified, in exports and in backups.`;

async function erase({ pool, config }: Mirror, text: string, options: EraseOptions): Promise<void> {
  const order = await findOne(pool, text, options.source);
  const { sourceId, reference } = order;
  const found = await previewErasure(pool, order);
  const say = options.json === true ? printNotice : printLine;
  say(
    `Order ${reference} of source ${sourceId}: its content is in ${countOf(found.observations, "observation")}, ${countOf(found.events, "event")} and ${countOf(found.quarantined, "quarantined entry", "quarantined entries")}.`,
  );
  if (options.dryRun === true) {
    if (options.json === true) printJson({ ...order, found, erased: null });
    return;
  }
  if (!(await isAgreed(options, "Erase its personal data for good?"))) return;
  const erased = await audited(pool, { action: "erase", sourceId, target: reference }, () =>
    eraseOrder(pool, order),
  );
  for (const other of await readOtherSources(pool, order)) {
    printNotice(
      `Source ${other} has input about an order ${reference}. If it is the same one: ${commandOn(`erase --source ${other}`, reference)}`,
    );
  }
  await removeCaptured(refusedFolder(config.dataDir));
  if (options.json === true) printJson({ ...order, found, erased });
  else printLine("Erased. Whatever arrives about it from now on is stored without personal data.");
}

/** Files of CAPTURE_REFUSED that web wrote on this machine. */
async function removeCaptured(folder: string): Promise<void> {
  try {
    const removed = await removeRefusedRequests(folder);
    if (removed > 0)
      printNotice(`The refused requests of ${countOf(removed, "source")} in ${folder} were removed, too.`);
  } catch (error) {
    printNotice(
      `The refused requests in ${folder} may hold its data and could not be removed (${String((error as NodeJS.ErrnoException).code)}). Remove them as the account of the web process.`,
    );
  }
}

async function findOne(pool: Pool, text: string, named: string | undefined) {
  const found = await findOrders(pool, { text, sourceId: named ?? null });
  const [only, ...others] = found.map(({ sourceId, reference }) => ({ sourceId, reference }));
  if (only === undefined) return nameUnknown(pool, text, named);
  if (others.length === 0) return only;
  throw refuseSeveral(text, found);
}
