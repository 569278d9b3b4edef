import type { Command } from "commander";
import { ConfigurationError } from "../../../domain/errors.ts";
import type { Pool } from "../../../database/database.ts";
import { refusedFolder, removeRefusedRequests } from "../../../receive/refusedRequests.ts";
import { eraseOrder, previewErasure, readOtherSources } from "../../../retention/erasure.sql.ts";
import type { ErasureCount } from "../../../retention/erasure.sql.ts";
import { findOrders } from "../../../ops/orders/order.sql.ts";
import type { Config } from "../../../runtime/config/config.ts";
import { audited, chooseSource, isAgreed, withMirror } from "../../input/session.ts";
import { printJson, printLine, printNotice } from "../../output/terminal.ts";
import { commandOn } from "../../../domain/shellWord.ts";

interface Options {
  readonly source?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

const HELP = `
Reference, status, times, fleet and branch stay, so that counts remain true. Everything else is removed from orders, history,
events and quarantine, and does not return with a webhook, a read or a replay. This cannot be undone.
Input that names no order is not searched: it is removed after EVENTS_KEPT_FOR, or after 30 days.
Requests that CAPTURE_REFUSED stored under this DATA_DIR are removed, whomever they are about; web on another machine keeps its own for
at most a day.
Copies outside the database stay: at the provider, in systems that were notified, in exports and in backups.`;

export function register(program: Command): void {
  program
    .command("erase")
    .argument("<reference>", "the provider's reference, or the externalOrderId")
    .description("erase the personal data of one order for good")
    .option("--source <id>", "the source; required for an order that is not in the mirror")
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
  const say = options.json === true ? printNotice : printLine;
  say(`Order ${order.reference} of source ${order.sourceId}: ${describe(found)}.`);
  if (options.dryRun === true) {
    if (options.json === true) printJson({ ...order, found, erased: null });
    return;
  }
  if (!(await isAgreed(options, "Erase its personal data for good?"))) return;
  const { sourceId, reference } = order;
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
    if (removed > 0) printNotice(`${removed} refused requests in ${folder} were removed, too.`);
  } catch (error) {
    printNotice(
      `The refused requests in ${folder} may hold its data and could not be removed (${String((error as NodeJS.ErrnoException).code)}). Remove them as the account of the web process.`,
    );
  }
}

async function findOne(
  pool: Pool,
  text: string,
  named: string | undefined,
): Promise<{ sourceId: string; reference: string }> {
  const found = await findOrders(pool, { text, sourceId: named ?? null });
  const [only, ...others] = found;
  if (only === undefined) {
    // The order may arrive later.
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

function describe({ observations, events, quarantined }: ErasureCount): string {
  return `its content is in ${observations} observations, ${events} events and ${quarantined} quarantined entries`;
}
