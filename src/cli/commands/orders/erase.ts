import type { Command } from "commander";
import { ConfigurationError } from "../../../domain/errors.ts";
import type { Pool } from "../../../database/database.ts";
import { eraseOrder, previewErasure } from "../../../retention/erase.ts";
import type { DoubtfulInput, ErasureReport } from "../../../retention/erase.ts";
import { findOrders } from "../../../ops/orders/timeline.sql.ts";
import { audited } from "../../input/audit.ts";
import { confirm } from "../../input/confirm.ts";
import { withMirror } from "../../input/session.ts";
import { chooseSource } from "../../input/sourceChoice.ts";
import { printJson, printLine, printNotice } from "../../output/terminal.ts";

interface Options {
  readonly source?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly also: readonly string[];
  readonly json?: boolean;
}

const HELP = `
Reference, status, times, fleet and branch stay, so that counts remain true. Everything else goes from orders, history,
events and quarantine, and does not come back by a webhook, a read or a replay. It cannot be undone here.
Input that is about no order goes when it names the reference. What may be about the order is listed: look at it, and
name what is with --also: event:12 is the row of mirror.inbox with seq 12, quarantined:3 the row of mirror.quarantine
with that number. What is about another order stays with that order, also when it names this one.
The provider, systems that were notified, and backups of the database keep what they have.`;

export function addEraseCommand(program: Command): void {
  program
    .command("erase")
    .argument("<reference>", "the provider's reference, or the externalOrderId")
    .description("erase the personal data of one order for good")
    .option("--source <id>", "of this source; needed for an order that is not in the mirror")
    .option("--also <entry...>", "erase these entries of the list of doubtful input as well", [])
    .option("--dry-run", "only say what would be done")
    .option("--yes", "do not ask")
    .option("--json", "print JSON")
    .addHelpText("after", HELP)
    .action((text: string, options: Options) => withMirror(({ pool }) => erase(pool, text, options)));
}

async function erase(pool: Pool, text: string, options: Options): Promise<void> {
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
  if (options.yes !== true && !(await confirm("Erase its personal data for good?"))) {
    printNotice("Nothing was done.");
    return;
  }
  const { sourceId, reference } = order;
  const erased = await audited(pool, { action: "erase", sourceId, target: reference }, () =>
    eraseOrder(pool, order, options.also),
  );
  if (options.json === true) printJson({ ...order, found, erased });
  else {
    printLine("Erased. What comes of it from now on is stored without personal data.");
    if (erased.doubtful.length > 0)
      printLine(
        `${erased.doubtful.length} entries may be about it and stayed. Erase those that are: add --also and their names.`,
      );
  }
}

const DOUBTS: Readonly<Record<DoubtfulInput["mention"], string>> = {
  perhaps: "may be about it",
  unreadable: "is no text and could not be searched",
};

function checkEntries(entries: readonly string[], doubtful: readonly DoubtfulInput[]): void {
  const unknown = entries.filter((entry) => !doubtful.some((one) => one.entry === entry));
  if (unknown.length === 0) return;
  throw new ConfigurationError(`Not in the list of doubtful input: ${unknown.join(", ")}.`, {
    fix: "Look at the list with --dry-run. It names entries such as event:12 and quarantined:3.",
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
    // Unreadable input may hold it anyway, and it may still come.
    if (named !== undefined) return { sourceId: await chooseSource(pool, named), reference: text };
    throw new ConfigurationError(`No order ${text} is in the mirror.`, {
      fix: "Look at the reference; or say whose it is, with --source, to keep it out for good.",
    });
  }
  if (others.length === 0) return only;
  const names = found.map(({ sourceId, reference }) => `${reference} of ${sourceId}`).join(", ");
  throw new ConfigurationError(`Several orders are called ${text}.`, {
    fix: `Say which, by reference and with --source: ${names}.`,
  });
}

function describe({ observations, events, quarantined }: ErasureReport): string {
  return `${observations} observations, ${events} events and ${quarantined} in quarantine hold its content`;
}
