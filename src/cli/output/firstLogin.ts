import type { RoleDeps } from "../../roles/role.ts";
import type { WebAddress } from "../../roles/web.ts";
import type { MadeCredentials } from "../../runtime/config/credentials.ts";
import { provideCredentials } from "../../runtime/config/credentials.ts";
import { alignColumns, printNotice } from "./terminal.ts";

const TOKENS_SHOWN = 5;

/**
 * Starts the web process with access control: with the configured tokens and passwords, or with those created at the
 * first start. New ones are printed once, to a terminal only: a log is read by others, and kept.
 */
export async function startClosed(
  deps: RoleDeps,
  start: (deps: RoleDeps) => Promise<WebAddress>,
): Promise<WebAddress> {
  const { config, made, file } = await provideCredentials(deps.config);
  const web = await start({ ...deps, config });
  if (made !== undefined) printMade(made, file);
  return web;
}

function printMade(made: MadeCredentials, file: string): void {
  const tokens = Object.entries(made.apiTokens);
  const rows = [
    ...(made.opsPassword === undefined ? [] : [["operator of /ops", made.opsPassword]]),
    ...(made.opsViewerPassword === undefined ? [] : [["viewer of /ops", made.opsViewerPassword]]),
    ...tokens.slice(0, TOKENS_SHOWN).map(([sourceId, token]) => [`/v1, source ${sourceId}`, token]),
    ...(made.metricsToken === undefined ? [] : [["/metrics", made.metricsToken]]),
  ];
  printNotice();
  printNotice("No passwords or tokens are configured, so these were created. They are stored in");
  printNotice(`${file}, which only this account can read.`);
  printNotice();
  const isTerminal = process.stderr.isTTY;
  for (const line of alignColumns(rows.map(([name = "", secret = ""]) => [name, isTerminal ? secret : ""])))
    printNotice(`  ${line}`);
  if (tokens.length > TOKENS_SHOWN)
    printNotice(`  and those of ${tokens.length - TOKENS_SHOWN} more sources`);
  printNotice();
}
