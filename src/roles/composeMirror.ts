import type { ServerResponse } from "node:http";
import type { Decision } from "../apply/applySubjects.ts";
import { assertMigrated } from "../database/migrations.ts";
import type { Config } from "../runtime/config/config.ts";
import { systemClock } from "../runtime/lifecycle/clock.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { makeShutdown } from "../runtime/lifecycle/shutdown.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { makeMetrics } from "../runtime/telemetry/metrics.ts";
import { VERSION } from "../runtime/version.ts";
import { startAlerting } from "./background/alertingLoop.ts";
import type { Handler, Mirror, Parts } from "./createMirror.ts";
import { openQueues } from "./queues.ts";
import type { RoleDeps } from "./role.ts";
import { openHealth } from "./serving/health.ts";
import { migrateAll } from "./start/migrateAll.ts";
import { makeReloadableConfig } from "./start/reloadableConfig.ts";
import type { Reloaded } from "./start/reloadableConfig.ts";
import type { WebHandlers } from "./web.ts";

/** A mirror whose sources and endpoints may change while it runs. */
export interface ComposedMirror extends Mirror {
  /** Throws ConfigurationError when a source would belong to another provider; logs what cannot be applied in full. */
  reload(changed: Reloaded): Promise<void>;
}

export interface MirrorDeps {
  readonly config: Config;
  /** Postgres itself; default: as `config` says. */
  readonly databaseUrl?: string;
  readonly logger: Logger;
  readonly clock?: Clock;
  /** How long an event may arrive after the read that found its change; default: the poller's. */
  readonly eventGraceSeconds?: number | undefined;
  /** Called with every decision of this process. */
  readonly onDecisions?: ((decisions: readonly Decision[]) => void) | undefined;
}

const WEBHOOKS = /^\/webhooks\//;
const API = /^\/(?:v1\/|v1$|docs(?:[/?]|$)|openapi\.json)/;
const OPS = /^\/(?:ops(?:[/?]|$)|livez|readyz|metrics)/;

/** A mirror of a configuration that is known to be valid. */
export function composeMirror(given: MirrorDeps): ComposedMirror {
  const { config, logger, clock = systemClock } = given;
  const databaseUrl = findDatabase(given);
  const shutdown = makeShutdown({ logger, isPart: true });
  const reloadable = makeReloadableConfig({ config, logger });
  const metrics = makeMetrics({ version: VERSION });
  const deps: RoleDeps = { ...given, databaseUrl, clock, shutdown, metrics, reloadable };
  let web: WebHandlers | undefined;
  let started: Promise<void> | undefined;

  async function startParts({ web: answers = true, worker = false, poller = false }: Parts): Promise<void> {
    for (const remark of await assertMigrated(databaseUrl)) logger.warn(remark);
    const queues = answers || worker ? await openQueues(deps) : undefined;
    // Each part loads its own code: a poller needs neither BullMQ nor Express.
    if (worker && queues) await (await import("./worker.ts")).startWorker({ ...deps, ...queues });
    const health = answers ? openHealth({ ...deps, ...queues }) : undefined;
    if (health && queues) web = await (await import("./web.ts")).openWeb({ ...deps, ...queues, health });
    if (poller) await (await import("./poller.ts")).startPoller(deps);
    startAlerting({ ...deps, ...queues, ...(health && { health }) });
    if (!answers) web = makeProbesOnly(deps);
  }

  const answer =
    (paths: RegExp, handlerOf: (handlers: WebHandlers) => Handler): Handler =>
    (request, response, next) => {
      if (!paths.test(request.url ?? "")) return next();
      if (web === undefined) return refuseUnstarted(response);
      handlerOf(web)(request, response, next);
    };
  return {
    webhooks: answer(WEBHOOKS, ({ webhooks }) => webhooks),
    api: answer(API, ({ api }) => api),
    ops: answer(OPS, ({ ops }) => ops),
    migrate: () => migrateAll(databaseUrl, logger),
    start: (parts = {}) => (started ??= startParts(parts)),
    reload: (changed) => reloadable.reload(changed),
    close: () => shutdown.run("the mirror is closed"),
  };
}

function findDatabase({ config, databaseUrl }: MirrorDeps): string {
  const found = databaseUrl ?? config.databaseDirectUrl ?? config.databaseUrl;
  if (found === null) throw new TypeError("a mirror needs the address of its database");
  return found;
}

function refuseUnstarted(response: ServerResponse): void {
  const body = "The mirror has not started yet.\n";
  response.writeHead(503, {
    "Content-Type": "text/plain",
    "Retry-After": "1",
    "Content-Length": body.length,
  });
  response.end(body);
}

/** Health and metrics of a process that answers nothing else; made when somebody asks. */
function makeProbesOnly(deps: RoleDeps): WebHandlers {
  const leave: Handler = (_request, _response, next) => next();
  let probes: Promise<Handler> | undefined;
  return {
    webhooks: leave,
    api: leave,
    ops(request, response, next) {
      probes ??= import("./web.ts").then(({ openProbes }) => openProbes(deps));
      void probes.then((handle) => handle(request, response, next), next);
    },
  };
}
