import type { MadeCredentials } from "../../runtime/config/credentials.ts";
import { alignColumns, printNotice } from "./terminal.ts";

const TOKENS_SHOWN = 5;

/** Names new credentials and their file. Shows them once, to a terminal only: a log is read by others, and kept. */
export function printCredentials(made: MadeCredentials, file: string): void {
  const tokens = Object.entries(made.apiTokens);
  const rows = [
    ...(made.opsPassword === undefined ? [] : [["operator of /ops", made.opsPassword]]),
    ...(made.opsViewerPassword === undefined ? [] : [["viewer of /ops", made.opsViewerPassword]]),
    ...tokens.slice(0, TOKENS_SHOWN).map(([sourceId, token]) => [`/v1, source ${sourceId}`, token]),
    ...(made.metricsToken === undefined ? [] : [["/metrics", made.metricsToken]]),
  ];
  const isTerminal = process.stderr.isTTY;
  printNotice();
  printNotice("No passwords or tokens are configured, so these were created. They are stored in");
  printNotice(`${file}, which only this account can read.`);
  printNotice();
  for (const line of alignColumns(rows.map(([name = "", secret = ""]) => [name, isTerminal ? secret : ""])))
    printNotice(`  ${line}`);
  if (tokens.length > TOKENS_SHOWN)
    printNotice(`  and those of ${tokens.length - TOKENS_SHOWN} more sources`);
  printNotice();
}
