import type { Command } from "commander";
import { ConfigurationError } from "../../domain/errors.ts";
import type { Pool } from "../../database/database.ts";
import { countErasure, eraseOrder } from "../../retention/erasure.sql.ts";
import type { ErasureCount } from "../../retention/erasure.sql.ts";
import { findOrders } from "../../ops/orders/timeline.sql.ts";
import { confirm } from "../input/confirm.ts";
import { withMirror } from "../input/session.ts";
import { chooseSource } from "../input/sourceChoice.ts";
import { printJson, printLine, printNotice } from "../output/terminal.ts";

interface Options {
  readonly source?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

const HELP = `
Reference, status, times, fleet and branch stay, so that counts remain true. Everything else goes from orders, history,
events and quarantine, and does not come back by a webhook, a read or a replay. It cannot be undone here.
The provider, systems that were told, and backups of the database keep what they have.`;

export function addEraseCommand(program: Command): void {
  program
    .command("erase")
    .argument("<reference>", "the provider's reference, or the externalOrderId")
    .description("erase the personal data of one order for good")
    .option("--source <id>", "of this source; needed for an order that is not in the mirror")
    .option("--dry-run", "only say what would be done")
    .option("--yes", "do not ask")
    .option("--json", "print JSON")
    .addHelpText("after", HELP)
    .action((text: string, options: Options) => withMirror(({ pool }) => erase(pool, text, options)));
}

async function erase(pool: Pool, text: string, options: Options): Promise<void> {
  const order = await findOne(pool, text, options.source);
  const found = await countErasure(pool, order);
  const say = options.json === true ? printNotice : printLine;
  say(`Order ${order.reference} of source ${order.sourceId}: ${describe(found)}.`);
  if (options.dryRun === true) {
    if (options.json === true) printJson({ ...order, found, erased: null });
    return;
  }
  if (options.yes !== true && !(await confirm("Erase its personal data for good?"))) {
    printNotice("Nothing was done.");
    return;
  }
  const erased = await eraseOrder(pool, order);
  if (options.json === true) printJson({ ...order, found, erased });
  else printLine("Erased. What comes of it from now on is stored without personal data.");
}

async function findOne(
  pool: Pool,
  text: string,
  named: string | undefined,
): Promise<{ sourceId: string; reference: string }> {
  const found = await findOrders(pool, { text, sourceId: named ?? null });
  const [only, ...others] = found;
  if (only === undefined) {
    // Unreadable input may hold it all the same, and it may still come.
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

function describe({ observations, events, quarantined }: ErasureCount): string {
  return `${observations} observations, ${events} events and ${quarantined} in quarantine hold its content`;
}
