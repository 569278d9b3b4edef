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
import { z } from "zod";
import { makeRolesStep } from "../database/logins.ts";
import { assertMigrated, migrate, type Step } from "../database/migrations.ts";
import { ConfigurationError } from "../domain/errors.ts";
import { describeSchemaIssue } from "../domain/schemaIssue.ts";
import { makeConfig, type Config } from "../config/config.ts";
import type { VariableName } from "../config/variables.ts";
import { systemClock } from "../process/clock.ts";
import { makeShutdown } from "../process/shutdown.ts";
import { forwardLog, silentLogger, type Logger } from "../process/telemetry/logger.ts";
import { makeMetrics } from "../process/telemetry/metrics.ts";
import { VERSION } from "../process/version.ts";
import { openHealth, startAlerting } from "./health.ts";
import { openQueue, type RoleDeps } from "./role.ts";
import type { WebHandlers } from "./web.ts";

/** One organization in one mode at the provider. */
export interface MirrorSource {
  /** Its name in addresses, tokens and tables: 1 to 63 of a-z, 0-9, _ and -. */
  readonly sourceId: string;
  readonly mode: "live" | "test";
  /** The provider's base address, without `/v1`. */
  readonly baseUrl: string;
  /** The provider's key of this mode. None: this process cannot read the source, or forward writes to it. */
  readonly apiKey?: string | undefined;
  /** Secrets of its webhook endpoint, all valid. None: it is polled only. */
  readonly webhookSecrets?: readonly string[] | undefined;
  /** How the provider signs: a preset's name, or a scheme. Default: `standard-webhooks`. */
  readonly webhookScheme?: string | Readonly<Record<string, unknown>> | undefined;
  /** Sources with the same organization and mode share the provider's rate limits. Default: `default`. */
  readonly organization?: string | undefined;
}

/** One of your own endpoints, which is notified of changes. */
export interface MirrorEndpoint {
  /** Its name on the ops pages: 1 to 63 of a-z, 0-9, _ and -. */
  readonly name: string;
  /** https, or http on this machine. */
  readonly url: string;
  /** Signs each message: `whsec_…` with HMAC or `whsk_…` with ed25519; comma separated while it rotates. */
  readonly secret: string;
  /** The sources whose changes it gets. */
  readonly sources: readonly string[];
  /** Only these kinds of messages. Default: all. */
  readonly events?: readonly string[] | undefined;
  /** Only changes to one of these statuses. Default: all. */
  readonly statuses?: readonly string[] | undefined;
  /** What messages say of an order: without people and addresses (`redacted`, the default), `all`, or its reference only (`thin`). */
  readonly fields?: "redacted" | "all" | "thin" | undefined;
  /** Whether a change waits until earlier ones of the same order are delivered or given up. Default: false. */
  readonly ordered?: boolean | undefined;
  /** The maximum number of attempts per second. Default: any. */
  readonly rate?: number | null | undefined;
}

/** What takes log lines, as a pino logger does. */
export type MirrorLogger = Readonly<
  Record<"debug" | "info" | "warn" | "error", (fields: Record<string, unknown>, sentence: string) => void>
>;

/** The options of `createMirror`; each means what the variable of the same name does in `.env.example`. */
export interface MirrorOptions {
  /** Postgres that holds the mirror: `postgres://user:password@host:5432/database`. */
  readonly databaseUrl: string;
  /** Postgres itself, if `databaseUrl` is a pooler in transaction mode: for migrations, the queue and notifications. */
  readonly databaseDirectUrl?: string | undefined;
  /** Redis of the queue: one address, or the nodes of a cluster. Default, and empty: the queue is in Postgres. */
  readonly redisUrls?: readonly string[] | undefined;
  /** What is mirrored, at least one: `{ sourceId, mode, baseUrl, apiKey, webhookSecrets }`. Without secrets it is polled only. */
  readonly sources: readonly MirrorSource[];
  /** Bearer tokens of the read API: `TOKEN` for the source `live`, else `TOKEN@SOURCE`, with `+write` to forward writes. None: no read API. */
  readonly apiTokens?: readonly string[] | undefined;
  /** Password of operators, who may act on the ops pages. None: no ops pages. */
  readonly opsPassword?: string | undefined;
  /** Password of viewers, who may look but not act. None: no viewers. */
  readonly opsViewerPassword?: string | undefined;
  /** Bearer token of /metrics. None: nobody is answered. */
  readonly metricsToken?: string | undefined;
  /** The addresses at which this program is reached, such as https://shop.example.com: for links and schemes that sign them. */
  readonly publicUrls?: readonly string[] | undefined;
  /** Seconds between two polls. Default 30; less only for a provider on this machine. */
  readonly pollIntervalSeconds?: number | undefined;
  /** How late a change may appear in the provider's list, in seconds. Default 300; what is younger is not proved yet. */
  readonly pollMarginSeconds?: number | undefined;
  /** What the interval applies to: whole cycles (`cycle`, the default), or each list read (`request`). */
  readonly pollPace?: "cycle" | "request" | undefined;
  /** Our share of the organization's rate limits, in percent. Default 90; the rest is for its other software. */
  readonly rateSharePercent?: number | undefined;
  /** How far back the history of a new source is read: an ISO 8601 duration or instant. Default P30D. */
  readonly backfillSince?: string | undefined;
  /** Whether writes of tokens with `+write` are forwarded to the provider. Default false. */
  readonly writeThrough?: boolean | undefined;
  /** How long events are kept in full, as an ISO 8601 duration. Default: for ever, but 30 days if about no order. */
  readonly eventsKeptFor?: string | undefined;
  /** How long observations of orders are kept, except each order's current one. Default: for ever. */
  readonly historyKeptFor?: string | undefined;
  /** How long the change feed is kept. Default: for ever. */
  readonly changesKeptFor?: string | undefined;
  /** Where alerts are sent, firing and resolved, and the secret that signs them (`whsec_…`). Default: nowhere. */
  readonly alertWebhook?: { readonly url: string; readonly secret: string } | undefined;
  /** Your own endpoints that are notified of changes. */
  readonly outgoingWebhooks?: readonly MirrorEndpoint[] | undefined;
  /** Takes the log, without secrets and personal data. Default: silent. */
  readonly logger?: MirrorLogger | undefined;
}

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

const text = z.string().optional();
const texts = z.array(z.string()).optional();
const number = z.number().optional();

/** The variable that says the same as an option, and what must look like its text; and the option's kind. */
const VARIABLES = {
  databaseUrl: ["DATABASE_URL", z.string()],
  databaseDirectUrl: ["DATABASE_DIRECT_URL", text],
  redisUrls: ["REDIS_URL", texts],
  apiTokens: ["API_TOKENS", texts],
  opsPassword: ["OPS_PASSWORD", text],
  opsViewerPassword: ["OPS_VIEWER_PASSWORD", text],
  metricsToken: ["METRICS_TOKEN", text],
  publicUrls: ["PUBLIC_URL", texts],
  pollIntervalSeconds: ["POLL_INTERVAL_SECONDS", number],
  pollMarginSeconds: ["POLL_MARGIN_SECONDS", number],
  pollPace: ["POLL_PACE", text],
  rateSharePercent: ["RATE_SHARE_PERCENT", number],
  backfillSince: ["BACKFILL_SINCE", text],
  writeThrough: ["WRITE_THROUGH", z.boolean().optional()],
  eventsKeptFor: ["EVENTS_KEPT_FOR", text],
  historyKeptFor: ["HISTORY_KEPT_FOR", text],
  changesKeptFor: ["CHANGES_KEPT_FOR", text],
} as const satisfies Partial<Record<keyof MirrorOptions, readonly [VariableName, z.ZodType]>>;

const LOGGER_FUNCTIONS = ["debug", "info", "warn", "error"] as const;

const optionsSchema = z.strictObject({
  ...Object.fromEntries(Object.entries(VARIABLES).map(([option, [, kind]]) => [option, kind])),
  sources: z.array(z.looseObject({})).min(1),
  outgoingWebhooks: z.array(z.looseObject({})).default([]),
  alertWebhook: z.strictObject({ url: z.string(), secret: z.string() }).optional(),
  logger: z
    .custom<MirrorLogger>(
      (value) => LOGGER_FUNCTIONS.every((name) => typeof (value as MirrorLogger)?.[name] === "function"),
      "must have the functions debug, info, warn and error, as a pino logger has",
    )
    .optional(),
});

const OPTION_OF = new Map<string, string>([
  ...Object.entries(VARIABLES).map(([option, [variable]]) => [variable, option] as const),
  ["ALERT_WEBHOOK_URL", "alertWebhook.url"],
  ["ALERT_WEBHOOK_SECRET", "alertWebhook.secret"],
]);

/**
 * The configuration that the options ask for, with the defaults of the variables; nothing is read from the environment.
 * Throws ConfigurationError, a line per wrong option, without secrets. @internal
 */
export function readOptions(options: MirrorOptions): Config {
  const result = optionsSchema.safeParse(options, { error: describeSchemaIssue });
  if (!result.success) {
    const problems = result.error.issues.map(
      ({ path, message }) => `${path.join(".") || "An option"}: ${message}.`,
    );
    throw new ConfigurationError(problems.join("\n"));
  }
  const { alertWebhook, sources, outgoingWebhooks, ...others } = result.data;
  const found: Partial<Record<VariableName, string>> = {
    ...(alertWebhook && { ALERT_WEBHOOK_URL: alertWebhook.url, ALERT_WEBHOOK_SECRET: alertWebhook.secret }),
  };
  for (const [option, [variable]] of Object.entries(VARIABLES)) {
    const value = (others as Partial<MirrorOptions>)[option as keyof typeof VARIABLES];
    if (value !== undefined && !(Array.isArray(value) && value.length === 0)) found[variable] = String(value);
  }
  const named = sources.map((source) => ({ organization: "default", ...source }));
  try {
    return makeConfig(found, {
      sources: { name: "sources", elements: named },
      endpoints: { name: "outgoingWebhooks", elements: outgoingWebhooks },
    });
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    throw new ConfigurationError(
      error.message.replaceAll(/\b[A-Z]+(?:_[A-Z]+)+\b/g, (name) => OPTION_OF.get(name) ?? name),
      { cause: error.cause },
    );
  }
}
