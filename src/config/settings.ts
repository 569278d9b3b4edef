import { LOG_LEVELS } from "../process/telemetry/logger.ts";
import {
  folder,
  keptFor,
  list,
  lowerCaseText,
  networks,
  oneOf,
  password,
  port,
  postgresUrl,
  publicUrls,
  redisUrls,
  seconds,
  secretAddress,
  secretList,
  secretText,
  since,
  text,
  token,
  tokens,
  wholeNumber,
  yesOrNo,
  type Kind,
} from "./kinds.ts";

/*
 * The one table of settings: name, variable, kind, default and meaning. The commands read the variables, and a mirror
 * in another program is given the options of the same names. `.env.example` and the types of the options are made from
 * it, sections and comments included; the test of `.env.example` writes that file with `--update`.
 */

export interface Setting<Given, Value> {
  readonly variable: string;
  readonly kind: Kind<Given, Value>;
  /** Null: not set. */
  readonly fallback: Value;
}

/** A setting that a mirror in another program also has, as an option. */
export interface Option<Given, Value> extends Setting<Given, Value> {
  readonly isOption: true;
}

function variable<Given, Value>(name: string, kind: Kind<Given, Value>): Setting<Given, Value | null>;
function variable<Given, Value>(
  name: string,
  kind: Kind<Given, Value>,
  fallback: NoInfer<Value>,
): Setting<Given, Value>;
function variable<Given, Value>(name: string, kind: Kind<Given, Value>, fallback: Value | null = null) {
  return { variable: name, kind, fallback };
}

function option<Given, Value>(name: string, kind: Kind<Given, Value>): Option<Given, Value | null>;
function option<Given, Value>(
  name: string,
  kind: Kind<Given, Value>,
  fallback: NoInfer<Value>,
): Option<Given, Value>;
function option<Given, Value>(name: string, kind: Kind<Given, Value>, fallback: Value | null = null) {
  return { variable: name, kind, fallback, isOption: true };
}

export const SETTINGS = {
  // --- The provider ---

  /** The base address of the provider. */
  deliveryBaseUrl: variable("DELIVERY_BASE_URL", text),
  /**
   * The live key of the provider, for `up`, `poller`, and `web` with WRITE_THROUGH; the key or the secrets create the
   * source live.
   */
  deliveryLiveApiKey: variable("DELIVERY_LIVE_API_KEY", secretText),
  /**
   * The test key of the provider, for `up`, `poller`, and `web` with WRITE_THROUGH; the key or the secrets create the
   * source test.
   */
  deliveryTestApiKey: variable("DELIVERY_TEST_API_KEY", secretText),
  /** Secrets of the live webhook endpoint, comma separated, all valid; none: this source is polled only. */
  deliveryLiveWebhookSecrets: variable("DELIVERY_LIVE_WEBHOOK_SECRETS", secretList, []),
  /** Secrets of the test webhook endpoint, comma separated, all valid; none: this source is polled only. */
  deliveryTestWebhookSecrets: variable("DELIVERY_TEST_WEBHOOK_SECRETS", secretList, []),
  /** The scheme by which the provider signs: a preset's name or the JSON of a scheme (identify-signature finds it). */
  webhookScheme: variable("WEBHOOK_SCHEME", text, "standard-webhooks"),
  /**
   * The number of recently refused webhook requests that web stores under DATA_DIR for a day, for identify-signature;
   * 0: none.
   */
  captureRefused: variable("CAPTURE_REFUSED", wholeNumber(0, 100), 0),
  /** A JSON file that lists sources, for several organizations. */
  sourcesFile: variable("SOURCES_FILE", text),

  // --- Storage ---

  /**
   * Postgres that holds the mirror, as postgres://user:password@host:5432/database; none: an embedded one under
   * DATA_DIR.
   */
  databaseUrl: option("DATABASE_URL", postgresUrl),
  /** Postgres itself, if DATABASE_URL is a pooler in transaction mode: for migrations, the queue and notifications. */
  databaseDirectUrl: option("DATABASE_DIRECT_URL", postgresUrl),
  /** The folder of the embedded Postgres. */
  dataDir: variable("DATA_DIR", folder, ".data"),
  /** Redis of the queue: one address, or the nodes of a cluster, comma separated; none: the queue is in Postgres. */
  redisUrls: option("REDIS_URL", redisUrls, []),

  // --- The web process ---

  /** The address that the web process listens on. */
  host: variable("HOST", text, "127.0.0.1"),
  /** The port that the web process listens on; 0: a free one. */
  port: variable("PORT", port, 3000),
  /** A separate port for /webhooks, which PORT then does not answer; none: PORT. */
  webhookPort: variable("WEBHOOK_PORT", port),

  // --- Separate worker and poller processes ---

  /** The port for /livez, /readyz and /metrics of a separate worker or poller; none: not served. */
  healthPort: variable("HEALTH_PORT", port),

  // --- Polling ---

  /** Seconds between two polls; under 30 only for a provider on this machine. */
  pollIntervalSeconds: option("POLL_INTERVAL_SECONDS", seconds(0.1, 3_600), 30),
  /** The delay with which a change may appear in the provider's list, in seconds; what is younger is not proved yet. */
  pollMarginSeconds: option("POLL_MARGIN_SECONDS", seconds(1, 86_400), 300),
  /**
   * Whether the interval is one of whole cycles (cycle) or of list reads (request); after a crash, the next process
   * begins with the end of the lease, 10 to 15 s after the last read.
   */
  pollPace: option("POLL_PACE", oneOf(["cycle", "request"]), "cycle"),
  /** Our share of the organization's rate limits, in percent; the rest is for its other software. */
  rateSharePercent: option("RATE_SHARE_PERCENT", wholeNumber(1, 100), 90),
  /**
   * The beginning of the history that is read of a new source: ISO 8601 duration (a month has 31 days, a year 366) or
   * instant.
   */
  backfillSince: option("BACKFILL_SINCE", since, "P30D"),

  // --- Access ---

  /**
   * Bearer tokens of the read API, comma separated: TOKEN for the source live or TOKEN@SOURCE, with write access
   * TOKEN@SOURCE+write; none: the commands create one per source at the first start and keep it in DATA_DIR, and a
   * mirror in another program has no read API.
   */
  apiTokens: option("API_TOKENS", tokens, []),
  /**
   * The password of operators, who may act on the ops pages; none: the commands create one at the first start and keep
   * it in DATA_DIR, and a mirror in another program has no ops pages.
   */
  opsPassword: option("OPS_PASSWORD", password),
  /** The password of viewers, who may look but not act; none: created together with OPS_PASSWORD, else no viewers. */
  opsViewerPassword: option("OPS_VIEWER_PASSWORD", password),
  /** The bearer token of /metrics; none: created together with API_TOKENS or OPS_PASSWORD, else metrics are closed. */
  metricsToken: option("METRICS_TOKEN", token),
  /**
   * If no token or password is set, requests from this machine need none; for a developer's machine, never behind a
   * proxy; none: false, but true for `demo`.
   */
  localTrust: variable("LOCAL_TRUST", yesOrNo),
  /**
   * The public addresses of the web process, comma separated, such as https://mirror.example.com: for links and schemes
   * that sign them; the commands refuse requests for other hosts; a path is a prefix that a proxy removes, for webhooks
   * only.
   */
  publicUrls: option("PUBLIC_URL", publicUrls, []),

  // --- Single sign-on to the ops pages ---

  /**
   * Addresses from which the sign-on proxy of the ops pages connects to us, comma separated; it must remove
   * OPS_USER_HEADER and OPS_GROUPS_HEADER from what clients send; none: no header is trusted.
   */
  opsProxyAddresses: variable("OPS_PROXY_ADDRESSES", networks, []),
  /**
   * The header in which that proxy sends the person's name: X-Forwarded-User or X-Forwarded-Email (oauth2-proxy),
   * Remote-User (Authelia), Cf-Access-Authenticated-User-Email (Cloudflare Access).
   */
  opsUserHeader: variable("OPS_USER_HEADER", lowerCaseText, "x-forwarded-user"),
  /** The header in which that proxy sends the person's groups, comma separated. */
  opsGroupsHeader: variable("OPS_GROUPS_HEADER", lowerCaseText, "x-forwarded-groups"),
  /** Operators of single sign-on: groups or persons, comma separated; none: nobody. */
  opsOperators: variable("OPS_OPERATORS", list, []),
  /** Viewers of single sign-on: groups or persons, comma separated; *: everybody who has signed on; none: nobody. */
  opsViewers: variable("OPS_VIEWERS", list, []),

  // --- Alerts and writing ---

  /** The address to which alerts are sent, firing and resolved; none: no alerts are sent. */
  alertWebhookUrl: option("ALERT_WEBHOOK_URL", secretAddress),
  /** The secret with which alerts are signed (Standard Webhooks, whsec_…). */
  alertWebhookSecret: option("ALERT_WEBHOOK_SECRET", secretText),
  /** Whether writes are forwarded to the provider, for tokens with +write. */
  writeThrough: option("WRITE_THROUGH", yesOrNo, false),

  // --- Retention ---

  /**
   * The time for which events are kept in full, from when they were received: ISO 8601 duration; none: forever, but 30
   * days if about no order, or if HISTORY_KEPT_FOR has removed what was decided about them.
   */
  eventsKeptFor: option("EVENTS_KEPT_FOR", keptFor),
  /**
   * The time for which observations of orders are kept, except each order's current one: ISO 8601 duration; none:
   * forever.
   */
  historyKeptFor: option("HISTORY_KEPT_FOR", keptFor),
  /** The time for which the change feed is kept: ISO 8601 duration; none: forever. */
  changesKeptFor: option("CHANGES_KEPT_FOR", keptFor),

  // --- Webhooks to your own systems ---

  /** A JSON file that lists your own endpoints that are notified of changes; none: no webhooks are sent. */
  outgoingWebhooksFile: variable("OUTGOING_WEBHOOKS_FILE", text),

  // --- The sandbox ---

  /** The port of the sandbox provider. */
  sandboxPort: variable("SANDBOX_PORT", port, 4010),
  /** The seed of the sandbox: the same seed creates the same orders. */
  sandboxSeed: variable("SANDBOX_SEED", wholeNumber(0, 2 ** 31 - 1), 1),

  // --- Logs ---

  /** The least important lines that are logged: one of trace, debug, info, warn, error, fatal, silent. */
  logLevel: variable("LOG_LEVEL", oneOf(LOG_LEVELS), "info"),
  /** The form of log lines, json or pretty; none: pretty on a terminal, else json. */
  logFormat: variable("LOG_FORMAT", oneOf(["json", "pretty"])),
};

type Settings = typeof SETTINGS;
export type SettingName = keyof Settings;

/** The checked values of all settings. Null: not set, and without a default. */
export type Values = { readonly [Name in SettingName]: Settings[Name]["fallback"] };

type OptionName = {
  [Name in SettingName]: Settings[Name] extends { readonly isOption: true } ? Name : never;
}[SettingName];

/** The settings that a mirror in another program is given as options. */
export type SettingOptions = {
  readonly [Name in keyof Pick<Settings, OptionName>]?: ReturnType<Settings[Name]["kind"]["fromText"]>;
};

export const SETTING_NAMES = Object.keys(SETTINGS) as readonly SettingName[];

export function describeSetting(name: SettingName): Setting<unknown, unknown> {
  return SETTINGS[name];
}

/** The default of a setting as the text of its variable; empty: none. */
export function describeDefault(name: SettingName): string {
  const { fallback } = SETTINGS[name];
  return fallback === null || Array.isArray(fallback) ? "" : String(fallback);
}

const isOption = (name: SettingName): name is OptionName => "isOption" in SETTINGS[name];

export const OPTION_NAMES = SETTING_NAMES.filter(isOption);
