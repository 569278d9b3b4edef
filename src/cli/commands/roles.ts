import type { Command } from "commander";
import { listNeededGroups } from "../../database/logins.ts";
import { requireSources } from "../../runtime/config/config.ts";
import { runService, startMirror } from "../input/service.ts";
import type { Service } from "../input/service.ts";
import { readConfig } from "../input/session.ts";

/**
 * `up`, `web`, `worker`, `poller`: the parts of the product, in one process or several. Each loads only its own code,
 * and only when it starts.
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
  const groups = listNeededGroups(service, { writesThrough: config.writeThrough });
  const start = (own: Service) => startMirror(own, parts);
  return runService({ service, config, migrates, groups, start });
}
