import { makeLoginCode } from "../../ops/auth/loginCode.ts";
import type { RoleDeps } from "../../roles/role.ts";
import type { WebAddress } from "../../roles/web.ts";
import type { MadeCredentials } from "../../runtime/config/credentials.ts";
import { provideCredentials } from "../../runtime/config/credentials.ts";
import { alignColumns, printNotice } from "./terminal.ts";

const TOKENS_SHOWN = 5;

/**
 * Starts the web process with access control: with the configured tokens and passwords, or with those created at the
 * first start. New ones are printed once, with a login link.
 */
export async function startClosed(
  deps: RoleDeps,
  start: (deps: RoleDeps) => Promise<WebAddress>,
): Promise<WebAddress> {
  const { config, made, file } = provideCredentials(deps.config);
  const loginCode = made?.opsPassword === undefined ? undefined : makeLoginCode(deps.clock);
  const web = await start({ ...deps, config, loginCode });
  if (made !== undefined) {
    const base = config.publicUrls[0]?.replace(/\/+$/, "") ?? web.url;
    const link = loginCode && `${base}/ops/login?code=${loginCode.code}`;
    printMade(made, { link, file });
  }
  return web;
}

function printMade(made: MadeCredentials, { link, file }: { link: string | undefined; file: string }): void {
  const tokens = Object.entries(made.apiTokens);
  const rows = [
    ...(made.opsPassword === undefined ? [] : [["operator of /ops", made.opsPassword]]),
    ...(made.opsViewerPassword === undefined ? [] : [["viewer of /ops", made.opsViewerPassword]]),
    ...tokens.slice(0, TOKENS_SHOWN).map(([sourceId, token]) => [`/v1, source ${sourceId}`, token]),
    ...(made.metricsToken === undefined ? [] : [["/metrics", made.metricsToken]]),
  ];
  printNotice();
  printNotice(
    "No passwords or tokens are configured, so these were created. They are shown only once and stored in",
  );
  printNotice(`${file}.`);
  printNotice();
  for (const line of alignColumns(rows)) printNotice(`  ${line}`);
  if (tokens.length > TOKENS_SHOWN)
    printNotice(`  and those of ${tokens.length - TOKENS_SHOWN} more sources`);
  if (link !== undefined) printNotice(`\n  Log in with this link, once, within an hour: ${link}`);
  printNotice();
}
