/**
 * The mirror as a library. `createMirror` checks the options; `composeMirror` puts the parts together, and has a file of
 * its own, so that the declarations of this one name no type of a dependency.
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
import { forwardLog, silentLogger } from "../runtime/telemetry/logger.ts";
import { composeMirror } from "./composeMirror.ts";
import { readOptions } from "./mirrorOptions.ts";

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
  /** Whether changes are planned, but not sent. Default: false. */
  readonly paused?: boolean | undefined;
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
  /** How long events are kept in full, as an ISO 8601 duration. Default: for ever. */
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
    const { logger } = options;
    return composeMirror({ config, logger: logger === undefined ? silentLogger : forwardLog(logger) });
  });
}
