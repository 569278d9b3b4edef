/**
 * The mirror as a library. `createMirror` checks the options; `composeMirror` puts the parts together. What only this
 * repository uses is marked internal, so that the package's declarations name no type of a dependency.
 *
 *     const mirror = await createMirror({ databaseUrl, sources: [{ sourceId: "live", … }], apiTokens, opsPassword });
 *     await mirror.migrate();
 *     app.use(mirror.webhooks, mirror.api, mirror.ops);   // before any body parser
 *     await mirror.start({ worker: true, poller: true });
 *     await mirror.close();
 *
 * It takes values, never the environment, does not end the process and installs no signal handlers.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { makeRolesStep } from "../database/logins.ts";
import { assertMigrated, migrate, type Step } from "../database/migrations.ts";
import { readOptions, type MirrorOptions } from "../config/options.ts";
import { systemClock } from "../process/clock.ts";
import { makeShutdown } from "../process/shutdown.ts";
import { forwardLog, silentLogger, type Logger } from "../process/telemetry/logger.ts";
import { makeMetrics } from "../process/telemetry/metrics.ts";
import { VERSION } from "../process/version.ts";
import { openHealth, startAlerting } from "./health.ts";
import { openQueue, type RoleDeps } from "./role.ts";
import type { WebHandlers } from "./web.ts";

export type { MirrorEndpoint, MirrorLogger, MirrorOptions, MirrorSource } from "../config/options.ts";

/** A handler for Express, or for `http.createServer` with a `next` of your own; other paths go to `next`. */
export type Handler = (
  request: IncomingMessage,
  response: ServerResponse,
  next: (error?: unknown) => void,
) => void;

/** What a process does. */
export interface Parts {
  /** Answers `webhooks`, `api` and `ops`. Default true; false saves the memory: `ops` is then health and metrics only. */
  readonly web?: boolean;
  /** Applies events, sends outgoing webhooks, and removes what is old. Default false. */
  readonly worker?: boolean;
  /** Reads what events lost; of several processes one leads each source. Default false. */
  readonly poller?: boolean;
}

export interface Mirror {
  /** `POST /webhooks/:source`. Mount it before any body parser: signatures cover the bytes. */
  readonly webhooks: Handler;
  /** `/v1/…`, and its description at /docs and /openapi.json. */
  readonly api: Handler;
  /** `/ops`, /livez, /readyz and /metrics. */
  readonly ops: Handler;
  /** Brings the database to the newest schema; resolves with the migrations that it ran. The command `migrate` does the same. */
  migrate(): Promise<readonly string[]>;
  /** Starts these parts, once. Until it has resolved, the handlers answer 503. Throws ConfigurationError if the schema is older. */
  start(parts?: Parts): Promise<void>;
  /** Ends all parts and connections, after what is under way; within ten seconds. Close your server beside it. */
  close(): Promise<void>;
}

/**
 * Makes a mirror; nothing is connected before `migrate` or `start`. Throws ConfigurationError, a line per wrong option.
 */
export function createMirror(options: MirrorOptions): Promise<Mirror> {
  // A promise, so that a wrong option rejects, as everything does that may come later.
  return Promise.resolve().then(() => {
    const config = readOptions(options);
    // Postgres itself, also where connections go through a pooler. It is given: see optionsSchema.
    const databaseUrl = String(config.databaseDirectUrl ?? config.databaseUrl);
    const logger = options.logger === undefined ? silentLogger : forwardLog(options.logger);
    return composeMirror({ config, databaseUrl, logger });
  });
}

/** @internal */
export type MirrorDeps = Omit<RoleDeps, "clock" | "metrics" | "shutdown"> & Partial<Pick<RoleDeps, "clock">>;

const WEBHOOKS = /^\/webhooks\//;
const API = /^\/(?:v1\/|v1$|docs(?:[/?]|$)|openapi\.json)/;
const OPS = /^\/(?:ops(?:[/?]|$)|livez|readyz|metrics)/;

/** A mirror of a configuration that is known to be valid: the one place where the parts are put together, for library and commands. @internal */
export function composeMirror(given: MirrorDeps): Mirror {
  const { databaseUrl, logger, clock = systemClock } = given;
  const shutdown = makeShutdown({ logger, isPart: true });
  const metrics = makeMetrics({ version: VERSION });
  const deps: RoleDeps = { ...given, clock, shutdown, metrics };
  let web: WebHandlers | undefined;
  let started: Promise<void> | undefined;

  async function startParts({ web: answers = true, worker = false, poller = false }: Parts): Promise<void> {
    for (const remark of await assertMigrated(databaseUrl)) logger.warn(remark);
    const queue = answers || worker ? await openQueue(deps) : undefined;
    // Each part loads its own code: a poller needs neither BullMQ nor Express.
    if (worker && queue) await (await import("./worker.ts")).startWorker({ ...deps, queue });
    const health = openHealth({ ...deps, ...(queue && { queue }) });
    if (answers && queue) web = await (await import("./web.ts")).openWeb({ ...deps, queue, health });
    if (poller) await (await import("./poller.ts")).startPoller(deps);
    startAlerting({ ...deps, health });
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

function refuseUnstarted(response: ServerResponse): void {
  response.writeHead(503, { "Content-Type": "text/plain", "Retry-After": "1" });
  response.end("The mirror has not started yet.\n");
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

/** Brings mirror and queue to the newest schema, and gives the processes' roles their rights where `roles` says so. @internal */
export async function migrateAll(
  databaseUrl: string,
  logger: Logger,
  { roles = null }: { roles?: "when new" | "always" | null } = {},
): Promise<string[]> {
  // Only here: a poller never needs BullMQ, which is a third of its memory.
  const { migrateQueue, QUEUE_VERSION } = await import("../queue/postgresServer.ts");
  const queue: Step = { name: "queue", checksum: QUEUE_VERSION, run: migrateQueue };
  const steps = roles === null ? [queue] : [queue, await makeRolesStep({ always: roles === "always" })];
  const ran = await migrate(databaseUrl, { steps });
  if (ran.length > 0) logger.info({ migrations: ran }, "migrated the database");
  return ran;
}
