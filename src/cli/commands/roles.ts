import type { Command } from "commander";
import { listNeededGroups } from "../../database/logins.ts";
import type { HealthReader } from "../../health/health.ts";
import type { Queues } from "../../roles/queues.ts";
import type { RoleDeps } from "../../roles/role.ts";
import { requireSources } from "../../runtime/config/config.ts";
import { runService } from "../input/service.ts";
import { readConfig } from "../input/session.ts";

/**
 * `up`, `web`, `worker`, `poller`: the parts of the product, in one process or several. Each loads only its own code,
 * and only when it starts.
 */
export function register(program: Command): void {
  for (const service of Object.keys(ROLES) as Service[])
    program
      .command(service)
      .description(ROLES[service].description)
      .action(() => runRole(service));
}

async function startUp(deps: RoleDeps): Promise<void> {
  const { startAll } = await import("../../roles/all.ts");
  const { startClosed } = await import("../output/firstLogin.ts");
  await startClosed(deps, startAll);
}

async function startWebRole(deps: RoleDeps): Promise<void> {
  const { openQueues } = await import("../../roles/queues.ts");
  const { openHealth } = await import("../../roles/serving/health.ts");
  const { startWeb } = await import("../../roles/web.ts");
  const { startClosed } = await import("../output/firstLogin.ts");
  const queues = await openQueues(deps);
  const health = openHealth({ ...deps, ...queues });
  await startClosed(deps, (closed) => startWeb({ ...closed, ...queues, health }));
  await sendAlerts({ ...deps, health });
}

async function startWorkerRole(deps: RoleDeps): Promise<void> {
  const { openQueues } = await import("../../roles/queues.ts");
  const { startWorker } = await import("../../roles/worker.ts");
  const queues = await openQueues(deps);
  await startWorker({ ...deps, ...queues });
  await sendAlerts({ ...deps, ...queues });
  await serveHealth(deps);
}

async function startPollerRole(deps: RoleDeps): Promise<void> {
  const { startPoller } = await import("../../roles/poller.ts");
  await startPoller(deps);
  await sendAlerts(deps);
  await serveHealth(deps);
}

async function sendAlerts(
  deps: RoleDeps & Partial<Queues> & { readonly health?: HealthReader },
): Promise<void> {
  const { startAlerting } = await import("../../roles/background/alertingLoop.ts");
  startAlerting(deps);
}

async function serveHealth(deps: RoleDeps): Promise<void> {
  if (deps.config.healthPort === null) return;
  const { startHealthServer } = await import("../../roles/serving/healthServer.ts");
  await startHealthServer(deps);
}

/** The role that is exposed to strangers holds no provider key that it does not use. */
const ROLES = {
  up: {
    description: "run everything in one process: webhooks, worker, poller, read API, ops",
    start: startUp,
    keysFor: "reading",
  },
  web: {
    description: "run the web process: webhooks, read API, ops pages",
    start: startWebRole,
    keysFor: "writing",
  },
  worker: {
    description: "run a worker: applies events to the mirror",
    start: startWorkerRole,
    keysFor: "nothing",
  },
  poller: {
    description: "run a poller: reads what events lost; one of several leads",
    start: startPollerRole,
    keysFor: "reading",
  },
} as const;
type Service = keyof typeof ROLES;

function runRole(service: Service): Promise<void> {
  const { start, keysFor } = ROLES[service];
  const migrates = service === "up";
  const readAll = () => {
    const config = readConfig();
    requireSources(config, keysFor);
    return config;
  };
  const config = readAll();
  const { writeThrough, eventsKeptFor, historyKeptFor, changesKeptFor } = config;
  const removesOld = [eventsKeptFor, historyKeptFor, changesKeptFor].some((period) => period !== null);
  const groups = listNeededGroups(service, { writesThrough: writeThrough, removesOld });
  return runService({ service, config, migrates, groups, start, readAgain: readAll });
}
