import type { Command } from "commander";
import { ConfigurationError } from "../../../domain/errors.ts";
import type { Pool } from "../../../database/database.ts";
import { refusedFolder, removeRefusedRequests } from "../../../receive/refusedRequests.ts";
import { eraseOrder, previewErasure } from "../../../retention/erase.ts";
import type { DoubtfulInput, ErasureReport } from "../../../retention/erase.ts";
import { readOtherSources } from "../../../retention/erasure.sql.ts";
import { findOrders } from "../../../ops/orders/order.sql.ts";
import type { Config } from "../../../runtime/config/config.ts";
import { audited, chooseSource, isAgreed, withMirror } from "../../input/session.ts";
import { printJson, printLine, printNotice } from "../../output/terminal.ts";
import { commandOn } from "../../../domain/shellWord.ts";

interface Options {
  readonly source?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly also: readonly string[];
  readonly json?: boolean;
}

const HELP = `
Reference, status, times, fleet and branch stay, so that counts remain true. Everything else is removed from orders, history,
events and quarantine, and does not return with a webhook, a read or a replay. This cannot be undone.
Input that belongs to no order is erased if it contains the reference. Input that may belong to the order is listed: look at it,
and name the entries that do with --also: event:12 is the row of mirror.inbox with seq 12, quarantined:3 the row of mirror.quarantine
with that number. Input that belongs to another order stays, even if it contains this reference.
Requests that CAPTURE_REFUSED stored under this DATA_DIR are removed, whomever they are about; web on another machine keeps its own for
at most a day.
Copies outside the database stay: at the provider, in systems that were notified, in exports and in backups.`;

export function register(program: Command): void {
  program
    .command("erase")
    .argument("<reference>", "the provider's reference, or the externalOrderId")
    .description("erase the personal data of one order for good")
    .option("--source <id>", "the source; required for an order that is not in the mirror")
    .option("--also <entry...>", "also erase these entries from the list of doubtful input", [])
    .option("--dry-run", "only show what would be erased")
    .option("--yes", "do not ask for confirmation")
    .option("--json", "print JSON")
    .addHelpText("after", HELP)
    .action((text: string, options: Options) => withMirror((deps) => erase(deps, text, options)));
}

async function erase(
  { pool, config }: { pool: Pool; config: Pick<Config, "dataDir"> },
  text: string,
  options: Options,
): Promise<void> {
  const order = await findOne(pool, text, options.source);
  const found = await previewErasure(pool, order);
  checkEntries(options.also, found.doubtful);
  const say = options.json === true ? printNotice : printLine;
  say(`Order ${order.reference} of source ${order.sourceId}: ${describe(found)}.`);
  for (const { entry, mention } of found.doubtful) say(`  ${entry} ${DOUBTS[mention]}`);
  if (options.dryRun === true) {
    if (options.json === true) printJson({ ...order, found, erased: null });
    return;
  }
  if (!(await isAgreed(options, "Erase its personal data for good?"))) return;
  const { sourceId, reference } = order;
  const erased = await audited(pool, { action: "erase", sourceId, target: reference }, () =>
    eraseOrder(pool, order, options.also),
  );
  for (const other of await readOtherSources(pool, order)) {
    printNotice(
      `Source ${other} has input about an order ${reference}. If it is the same one: ${commandOn(`erase --source ${other}`, reference)}`,
    );
  }
  await removeCaptured(refusedFolder(config.dataDir));
  if (options.json === true) printJson({ ...order, found, erased });
  else {
    printLine("Erased. Whatever arrives about it from now on is stored without personal data.");
    if (erased.doubtful.length > 0)
      printLine(
        `${erased.doubtful.length} entries may belong to it and were kept. To erase those that do, add --also and their names.`,
      );
  }
}

/** Files of CAPTURE_REFUSED that web wrote on this machine. */
async function removeCaptured(folder: string): Promise<void> {
  try {
    const removed = await removeRefusedRequests(folder);
    if (removed > 0) printNotice(`${removed} refused requests in ${folder} were removed, too.`);
  } catch (error) {
    printNotice(
      `The refused requests in ${folder} may hold its data and could not be removed (${String((error as NodeJS.ErrnoException).code)}). Remove them as the account of the web process.`,
    );
  }
}

const DOUBTS: Readonly<Record<DoubtfulInput["mention"], string>> = {
  perhaps: "may belong to it",
  unreadable: "is not text and could not be searched",
};

function checkEntries(entries: readonly string[], doubtful: readonly DoubtfulInput[]): void {
  const unknown = entries.filter((entry) => !doubtful.some((one) => one.entry === entry));
  if (unknown.length === 0) return;
  throw new ConfigurationError(`Not in the list of doubtful input: ${unknown.join(", ")}.`, {
    fix: "Run it with --dry-run to see the list. Entries have names such as event:12 and quarantined:3.",
  });
}

async function findOne(
  pool: Pool,
  text: string,
  named: string | undefined,
): Promise<{ sourceId: string; reference: string }> {
  const found = await findOrders(pool, { text, sourceId: named ?? null });
  const [only, ...others] = found;
  if (only === undefined) {
    // Unreadable input may still contain the order, or it may arrive later.
    if (named !== undefined) return { sourceId: await chooseSource(pool, named), reference: text };
    throw new ConfigurationError(`The mirror has no order ${text}.`, {
      fix: "Check the reference; or name the source with --source to keep the order out for good.",
    });
  }
  if (others.length === 0) return only;
  const names = found.map(({ sourceId, reference }) => `${reference} of ${sourceId}`).join(", ");
  throw new ConfigurationError(`${text} matches several orders.`, {
    fix: `Choose one by its reference and --source: ${names}.`,
  });
}

function describe({ observations, events, quarantined }: ErasureReport): string {
  return `its content is in ${observations} observations, ${events} events and ${quarantined} quarantined entries`;
}
