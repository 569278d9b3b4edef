import type { Command } from "commander";
import { requireSources } from "../../config/config.ts";
import type { MadeCredentials } from "../../config/credentials.ts";
import { listNeededGroups } from "../../database/logins.ts";
import { runService, startMirror, type Service } from "../../mirror/service.ts";
import { announceSetUp } from "../demo/demoFolder.ts";
import { readConfig } from "../input/session.ts";
import { alignColumns, printNotice } from "../output/terminal.ts";

/**
 * `up`, `web`, `worker`, `poller`: the parts of the product, in one process or several.
 */
export function register(program: Command): void {
  for (const service of Object.keys(ROLES) as Role[])
    program
      .command(service)
      .description(ROLES[service].description)
      .action(() => runRole(service));
}

/** The role that is exposed to strangers holds no provider key that it does not use. */
const ROLES = {
  up: {
    description: "run everything in one process: webhooks, worker, poller, read API, ops",
    parts: { worker: true, poller: true },
    keysFor: "reading",
  },
  web: {
    description: "run the web process: webhooks, read API, ops pages",
    parts: {},
    keysFor: "writing",
  },
  worker: {
    description: "run a worker: applies events to the mirror",
    parts: { web: false, worker: true },
    keysFor: "nothing",
  },
  poller: {
    description: "run a poller: reads what events lost; one of several leads",
    parts: { web: false, poller: true },
    keysFor: "reading",
  },
} as const;
type Role = keyof typeof ROLES;

function runRole(service: Role): Promise<void> {
  const { parts, keysFor } = ROLES[service];
  const migrates = service === "up";
  const config = readConfig();
  requireSources(config, keysFor);
  announceSetUp(config);
  const groups = listNeededGroups(service, { writesThrough: config.writeThrough });
  const start = (own: Service) => startMirror(own, parts, printCredentials);
  return runService({ service, config, migrates, groups, start });
}

/** Names new credentials and their file. Shows them once, to a terminal only: a log is read by others, and kept. */
function printCredentials(made: MadeCredentials, file: string): void {
  const rows: (readonly [name: string, secret: string | undefined])[] = [
    ["operator of /ops", made.opsPassword],
    ["viewer of /ops", made.opsViewerPassword],
    ...Object.entries(made.apiTokens).map(([sourceId, token]) => [`/v1, source ${sourceId}`, token] as const),
    ["/metrics", made.metricsToken],
  ];
  const isTerminal = process.stderr.isTTY;
  const shown = rows.flatMap(([name, secret]) =>
    secret === undefined ? [] : [[name, isTerminal ? secret : ""]],
  );
  printNotice("\nNo passwords or tokens are configured, so these were created. They are stored in");
  printNotice(`${file}, which only this account can read.\n`);
  for (const line of alignColumns(shown)) printNotice(`  ${line}`);
  printNotice();
}
