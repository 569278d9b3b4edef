/**
 * The mirror as a library. `createMirror` checks the options; `composeMirror` puts the parts together. What only this
 * repository uses is marked internal, so that the package's declarations name no type of a dependency.
 *
 *     const mirror = await createMirror({ databaseUrl, sources: [{ sourceId: "live", … }], apiTokens, opsPassword });
 *     await mirror.migrate();
 *     app.use(mirror.webhooks, mirror.api, mirror.ops, mirror.probes);   // before any body parser
 *     await mirror.start({ worker: true, poller: true });
 *     await mirror.close();
 *
 * It takes values, never the environment, does not end the process and installs no signal handlers.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { matchAddress } from "../api/endpoints.ts";
import { makeErrorAnswer, stampAnswer } from "../api/respond.ts";
import { refuseBusy } from "../wire/refusal.ts";
import { requireSources, type Config } from "../config/config.ts";
import { readOptions, type MirrorOptions } from "../config/options.ts";
import { assertReachable, explainDatabaseError } from "../database/explainDatabaseError.ts";
import { makeRolesStep } from "../database/logins.ts";
import { assertMigrated, migrate, type Step } from "../database/migrations.ts";
import { ConfigurationError, UnavailableError } from "../domain/errors.ts";
import { describeUnknownName } from "../domain/unknownName.ts";
import { systemClock } from "../process/clock.ts";
import { makeShutdown, type Shutdown } from "../process/shutdown.ts";
import { forwardLog, silentLogger, type Logger } from "../process/telemetry/logger.ts";
import { makeMetrics } from "../process/telemetry/metrics.ts";
import { VERSION } from "../process/version.ts";
import type { ReceiverAnswer } from "../receive/answers.ts";
import { findSource, type ReceivedCall } from "../receive/receiver.ts";
import { openHealth, startAlerting } from "./health.ts";
import { openQueue, type RoleDeps } from "./role.ts";
import type { WebHandlers } from "./web.ts";

export type { MirrorEndpoint, MirrorLogger, MirrorOptions, MirrorSource } from "../config/options.ts";

/**
 * A handler for Express, or for `http.createServer` with a `next` of your own; addresses that are not the mirror's go
 * to `next`.
 */
export type Handler = (
  request: IncomingMessage,
  response: ServerResponse,
  next: (error?: unknown) => void,
) => void;

/** The parts of a mirror that a process runs. */
export interface Parts {
  /** Answers all handlers. Default true; false saves the memory: only `probes` answers then. */
  readonly web?: boolean;
  /** Applies events, sends outgoing webhooks, and removes what is old. Default false. */
  readonly worker?: boolean;
  /** Reads what events lost; of several processes one leads each source. Default false. */
  readonly poller?: boolean;
}

export interface Mirror {
  /**
   * `POST /webhooks/:source` of the sources in the options. Signatures cover the bytes: mount it before body parsers,
   * or behind `express.raw()`.
   */
  readonly webhooks: Handler;
  /** The addresses of the API below `/v1`. With `apiTokens`. */
  readonly api: Handler;
  /** The pages, at `/ops` and below. With `opsPassword` or `opsViewerPassword`. */
  readonly ops: Handler;
  /**
   * `/livez` and `/readyz`; `/metrics`, with `metricsToken`; the description of the API at `/docs` and `/openapi.json`.
   */
  readonly probes: Handler;
  /** Receives a webhook in a framework without Node's requests: send the answer as it is. Never rejects. */
  receive(call: ReceivedCall): Promise<ReceiverAnswer>;
  /**
   * Brings the database to the newest schema; resolves with the migrations that it ran. The command `migrate` does the
   * same.
   */
  migrate(): Promise<readonly string[]>;
  /**
   * Starts these parts. Until it has resolved, the handlers answer 503. If it fails, it closes what it has opened and
   * may be called again. Throws ConfigurationError if the schema is older, a source lacks its key, or other parts have
   * started.
   */
  start(parts?: Parts): Promise<void>;
  /**
   * Ends all parts and connections, after what is under way; within ten seconds, or twenty while it starts. Close your
   * server beside it.
   */
  close(): Promise<void>;
}

/**
 * Makes a mirror; nothing is connected before `migrate` or `start`. Throws ConfigurationError, a line per wrong option.
 */
export function createMirror(options: MirrorOptions): Promise<Mirror> {
  // A promise, so that a wrong option rejects, as everything does that may come later.
  return Promise.resolve().then(() => {
    const config = readOptions(options);
    // Postgres itself, also where connections go through a pooler. It is given: see readOptions.
    const databaseUrl = String(config.databaseDirectUrl ?? config.databaseUrl);
    const logger = options.logger === undefined ? silentLogger : forwardLog(options.logger);
    return composeMirror({ config, databaseUrl, logger }, listOwnAddresses(config));
  });
}

/** @internal */
export type MirrorDeps = Omit<RoleDeps, "clock" | "metrics" | "shutdown"> & Partial<Pick<RoleDeps, "clock">>;

const OPS = /^\/ops(?:[/?]|$)/;
const METRICS = /^\/metrics(?:\?|$)/;
const PROBES = /^\/(?:livez|readyz|metrics|openapi\.json|docs(?:\/[\w.-]+)?)(?:\?|$)/;

/** The requests that a mirror answers, by handler; all others go to `next`. */
type Addresses = Readonly<
  Record<"webhooks" | "api" | "ops" | "probes", (request: IncomingMessage) => boolean>
>;

/**
 * The addresses of a server of our own: with those that are like an address of webhooks or of the API and are none,
 * which are refused strictly, as the provider does. @internal
 */
export const ALL_ADDRESSES: Addresses = {
  webhooks: ({ url = "" }) => url.startsWith("/webhooks/"),
  api: ({ url = "" }) => /^\/v\d/i.test(url),
  ops: ({ url = "" }) => OPS.test(url),
  probes: ({ method = "", url = "" }) => (method === "GET" || method === "HEAD") && PROBES.test(url),
};

/** The addresses in the program of somebody else: a part that no option asks for leaves its own to that program. */
function listOwnAddresses(config: Config): Addresses {
  const { sources, apiTokens, opsPassword, opsViewerPassword, metricsToken } = config;
  const ids = new Set(sources.map(({ sourceId }) => sourceId));
  const hasPages = opsPassword !== null || opsViewerPassword !== null;
  return {
    webhooks: ({ url = "" }) => ids.has(findSource(url)),
    api: ({ method = "", url = "" }) => apiTokens.length > 0 && matchAddress(method, url).methods.length > 0,
    ops: (request) => hasPages && ALL_ADDRESSES.ops(request),
    probes: (request) =>
      ALL_ADDRESSES.probes(request) && (metricsToken !== null || !METRICS.test(request.url ?? "")),
  };
}

/** A start of parts, from its call until it fails or the mirror closes. */
interface Run {
  readonly parts: Required<Parts>;
  readonly shutdown: Shutdown;
  readonly started: Promise<void>;
}

/**
 * Makes a mirror of a configuration that is known to be valid, which answers these addresses: the one place where the
 * parts are put together, for library and commands. @internal
 */
export function composeMirror(given: MirrorDeps, addresses: Addresses): Mirror {
  const { databaseUrl, logger, clock = systemClock } = given;
  let web: WebHandlers | undefined;
  let run: Run | undefined;
  let closed = false;

  async function start(parts: Required<Parts>, shutdown: Shutdown): Promise<void> {
    const metrics = makeMetrics({ version: VERSION });
    try {
      web = await shutdown.start(() => openParts({ ...given, clock, shutdown, metrics }, parts));
    } catch (error) {
      // What was opened before the failure; then the start may be repeated.
      await shutdown.run("the start failed");
      run = undefined;
      if (closed) throw new UnavailableError("The mirror was closed while it started.", { cause: error });
      throw explainDatabaseError(error, databaseUrl) ?? error;
    }
  }

  const answer =
    (part: keyof Addresses): Handler =>
    (request, response, next) => {
      if (!addresses[part](request)) return next();
      const handle = web?.[part] ?? refuse(closed ? "is closed" : "has not started yet", logger);
      handle(request, response, next);
    };
  return {
    webhooks: answer("webhooks"),
    api: answer("api"),
    ops: answer("ops"),
    probes: answer("probes"),
    receive: async (call) => web?.receive(call) ?? { status: 503, headers: { "Retry-After": "1" }, body: "" },
    async migrate() {
      await assertReachable(databaseUrl);
      return migrateAll(databaseUrl, logger);
    },
    async start({ web: answers = true, worker = false, poller = false, ...others } = {}) {
      const parts = { web: answers, worker, poller };
      for (const name of Object.keys(others))
        throw new ConfigurationError(describeUnknownName("part", name, Object.keys(parts)));
      assertStartable(parts, { closed, run });
      if (run === undefined) {
        const shutdown = makeShutdown({ logger, isPart: true });
        run = { parts, shutdown, started: start(parts, shutdown) };
      }
      await run.started;
    },
    async close() {
      closed = true;
      await run?.shutdown.run("the mirror is closed");
      web = undefined;
    },
  };
}

/** Throws ConfigurationError after a close, and at a second start with other parts. */
function assertStartable(
  parts: Required<Parts>,
  { closed, run }: { readonly closed: boolean; readonly run: Run | undefined },
): void {
  if (closed) throw new ConfigurationError("The mirror is closed.", { fix: "Create another one." });
  if (run === undefined || JSON.stringify(run.parts) === JSON.stringify(parts)) return;
  throw new ConfigurationError("The mirror has started with other parts.", {
    fix: "Start it once, with all parts that this process is to have.",
  });
}

const refuse =
  (state: string, logger: Logger): Handler =>
  (request, response) =>
    stampAnswer(request, response, () => {
      const refusal = refuseBusy("temporarily_unavailable", `The mirror ${state}.`, 1);
      makeErrorAnswer(logger)(refusal, request, response, undefined);
    });

const leave: Handler = (_request, _response, next) => next();

/** Opens the parts of a process. What they open closes with `shutdown`, also after an error. */
async function openParts(
  deps: RoleDeps,
  { web: answers, worker, poller }: Required<Parts>,
): Promise<WebHandlers> {
  const { config, databaseUrl, logger, shutdown } = deps;
  requireSources(config, poller ? "reading" : answers ? "writing" : "nothing", {
    keyFix: "Give it its apiKey, or start without the poller and without writeThrough.",
  });
  await assertReachable(databaseUrl);
  for (const remark of await assertMigrated(databaseUrl)) logger.warn(remark);
  shutdown.signal.throwIfAborted();
  const queue = answers || worker ? await openQueue(deps) : undefined;
  // Each part loads its own code: a poller needs neither BullMQ nor Express.
  if (worker && queue) await (await import("./worker.ts")).startWorker({ ...deps, queue });
  const health = openHealth({ ...deps, ...(queue && { queue }) });
  const web =
    answers && queue ? await (await import("./web.ts")).openWeb({ ...deps, queue, health }) : undefined;
  if (poller) await (await import("./poller.ts")).startPoller(deps);
  startAlerting({ ...deps, health });
  // Closed meanwhile: nobody may take it for started.
  shutdown.signal.throwIfAborted();
  return web ?? makeProbesOnly(deps);
}

/** Health and metrics of a process that answers nothing else; made when somebody asks. */
function makeProbesOnly(deps: RoleDeps): WebHandlers {
  let opened: Promise<Handler> | undefined;
  return {
    webhooks: leave,
    api: leave,
    ops: leave,
    receive: () => Promise.resolve({ status: 404, headers: {}, body: "" }),
    probes(request, response, next) {
      opened ??= import("./web.ts").then(({ openProbes }) => openProbes(deps));
      void opened.then((handle) => handle(request, response, next), next);
    },
  };
}

/**
 * Brings mirror and queue to the newest schema, and gives the processes' roles their rights where `roles` says so.
 * @internal
 */
export async function migrateAll(
  databaseUrl: string,
  logger: Logger,
  { roles = null, signal }: { roles?: "when new" | "always" | null; signal?: AbortSignal } = {},
): Promise<string[]> {
  // Only here: a poller never needs BullMQ, which is a third of its memory.
  const { migrateQueue, QUEUE_VERSION } = await import("../queue/postgresServer.ts");
  const queue: Step = { name: "queue", checksum: QUEUE_VERSION, run: migrateQueue };
  const steps = roles === null ? [queue] : [queue, await makeRolesStep({ always: roles === "always" })];
  const ran = await migrate(databaseUrl, { steps, signal });
  if (ran.length > 0) logger.info({ migrations: ran }, "migrated the database");
  return ran;
}
