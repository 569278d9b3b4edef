import type { ServerResponse } from "node:http";
import type { Decision } from "../apply/applySubjects.ts";
import { makeRolesStep } from "../database/logins.ts";
import { assertMigrated, migrate } from "../database/migrations.ts";
import type { Step } from "../database/migrations.ts";
import type { Config } from "../runtime/config/config.ts";
import { systemClock } from "../runtime/lifecycle/clock.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { makeShutdown } from "../runtime/lifecycle/shutdown.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { makeMetrics } from "../runtime/telemetry/metrics.ts";
import { VERSION } from "../runtime/version.ts";
import { openHealth, startAlerting } from "./health.ts";
import { openQueues } from "./role.ts";
import type { RoleDeps } from "./role.ts";
import type { WebHandlers } from "./web.ts";
import type { Handler, Mirror, Parts } from "./createMirror.ts";

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

/** A mirror of a configuration that is known to be valid: the one place where the parts are put together, for library and commands. */
export function composeMirror(given: MirrorDeps): Mirror {
  const { logger, clock = systemClock } = given;
  const databaseUrl = findDatabase(given);
  const shutdown = makeShutdown({ logger, isPart: true });
  const metrics = makeMetrics({ version: VERSION });
  const deps: RoleDeps = { ...given, databaseUrl, clock, shutdown, metrics };
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

/** Brings mirror and queue to the newest schema, and gives the processes' roles their rights where `roles` says so. */
export async function migrateAll(
  databaseUrl: string,
  logger: Logger,
  { roles = null }: { roles?: "when new" | "always" | null } = {},
): Promise<string[]> {
  // Only here: a poller never needs BullMQ, which is a third of its memory.
  const { migrateQueue, QUEUE_VERSION } = await import("../queue/postgresBackend.ts");
  const queue: Step = { name: "queue", checksum: QUEUE_VERSION, run: () => migrateQueue(databaseUrl) };
  const steps = roles === null ? [queue] : [queue, await makeRolesStep({ always: roles === "always" })];
  const ran = await migrate(databaseUrl, { steps });
  if (ran.length > 0) logger.info({ migrations: ran }, "migrated the database");
  return ran;
}
