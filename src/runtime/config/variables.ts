import { SIGN_ON_VARIABLES } from "./signOnVariables.ts";
import {
  backfillSince,
  databaseUrl,
  DAY_SECONDS,
  folder,
  forwardedPaths,
  host,
  HOUR_SECONDS,
  keptFor,
  list,
  metricsToken,
  oneOf,
  password,
  alertAddress,
  redisUrls,
  seconds,
  text,
  tokens,
  webAddresses,
  wholeNumberVariable,
} from "./variableSchemas.ts";
import type { ValuesOf, Variable } from "./variableSchemas.ts";
import { LOG_LEVELS } from "../telemetry/logLevels.ts";

const MADE = "created at the first start, kept in DATA_DIR";
const CAPTURES_MAX = 100;
const PORT_MAX = 65_535;
const CONNECTIONS_LIMIT = 1_000_000;
const SEED_MAX = 2 ** 31 - 1;
const INTERVAL_SECONDS_MIN = 0.1;

/** Every variable that the product reads, in the order in which people need them. */
export const VARIABLES = {
  DELIVERY_BASE_URL: { schema: text, meaning: "base address of the provider" },
  DELIVERY_LIVE_API_KEY: {
    schema: text,
    secret: true,
    meaning:
      "live key of the provider, for `up`, `poller`, and `web` with WRITE_THROUGH; the key or the secrets create the source live",
  },
  DELIVERY_TEST_API_KEY: {
    schema: text,
    secret: true,
    meaning:
      "test key of the provider, for `up`, `poller`, and `web` with WRITE_THROUGH; the key or the secrets create the source test",
  },
  DELIVERY_LIVE_WEBHOOK_SECRETS: {
    schema: list,
    secret: true,
    unset: "polled only",
    meaning:
      "secrets of the live webhook endpoint, comma separated, all valid; none: this source is polled only",
  },
  DELIVERY_TEST_WEBHOOK_SECRETS: {
    schema: list,
    secret: true,
    unset: "polled only",
    meaning:
      "secrets of the test webhook endpoint, comma separated, all valid; none: this source is polled only",
  },
  WEBHOOK_SCHEME: {
    schema: text,
    default: "standard-webhooks",
    meaning: "how the provider signs: a preset's name or the JSON of a scheme (identify-signature finds it)",
  },
  CAPTURE_REFUSED: {
    schema: wholeNumberVariable(0, CAPTURES_MAX),
    default: "0",
    meaning:
      "number of recently refused webhook requests that web stores under DATA_DIR for a day, for identify-signature; 0: none",
  },
  SOURCES_FILE: {
    schema: text,
    meaning: "JSON file that lists sources, for several organizations",
  },
  DATABASE_URL: {
    schema: databaseUrl,
    secret: true,
    unset: "embedded Postgres under DATA_DIR",
    meaning: "Postgres that holds the mirror; none: an embedded one under DATA_DIR",
  },
  DATABASE_DIRECT_URL: {
    schema: databaseUrl,
    secret: true,
    unset: "DATABASE_URL is Postgres itself",
    meaning:
      "direct address of Postgres, if DATABASE_URL is a pooler in transaction mode; for migrations and the queue",
  },
  DATABASE_READ_URL: {
    schema: databaseUrl,
    secret: true,
    unset: "DATABASE_URL",
    meaning: "a replica for the orders, branches and exports of the read API; none: DATABASE_URL",
  },
  DATA_DIR: { schema: folder, default: ".data", meaning: "folder of the embedded Postgres" },
  REDIS_URL: {
    schema: redisUrls,
    secret: true,
    unset: "queue in Postgres",
    meaning: "Redis of the queue, comma separated for a cluster; none: queue in Postgres",
  },
  HOST: { schema: host, default: "127.0.0.1", meaning: "address that the web process listens on" },
  PORT: {
    schema: wholeNumberVariable(0, PORT_MAX),
    default: "3000",
    meaning: "port that the web process listens on; 0: a free one",
  },
  WEBHOOK_PORT: {
    schema: wholeNumberVariable(0, PORT_MAX),
    unset: "same as PORT",
    meaning: "separate port for /webhooks, which PORT then does not answer; none: PORT",
  },
  CONNECTIONS_MAX: {
    schema: wholeNumberVariable(1, CONNECTIONS_LIMIT),
    default: "4096",
    meaning: "maximum number of connections per port",
  },
  HEALTH_PORT: {
    schema: wholeNumberVariable(0, PORT_MAX),
    unset: "not served",
    meaning: "port for /livez, /readyz and /metrics of a separate worker or poller; none: not served",
  },
  POLL_INTERVAL_SECONDS: {
    schema: seconds(INTERVAL_SECONDS_MIN, HOUR_SECONDS),
    default: "30",
    meaning: "polling interval; under 30 only for a provider on this machine",
  },
  POLL_MARGIN_SECONDS: {
    schema: seconds(1, DAY_SECONDS),
    default: "300",
    meaning: "how late a change may appear in the provider's list; what is younger is not proved yet",
  },
  POLL_PACE: {
    schema: oneOf(["cycle", "request"]),
    default: "cycle",
    meaning: "what the interval applies to: whole cycles (cycle), or each list read (request)",
  },
  RATE_SHARE_PERCENT: {
    schema: wholeNumberVariable(1, 100),
    default: "90",
    meaning: "our share of the organization's rate limits, in percent; the rest is for its other software",
  },
  BACKFILL_SINCE: {
    schema: backfillSince,
    default: "P30D",
    meaning: "how far back the history of a new source is read: ISO 8601 duration or instant",
  },
  API_TOKENS: {
    schema: tokens,
    secret: true,
    unset: MADE,
    meaning:
      "tokens of the read API, comma separated: TOKEN or TOKEN@SOURCE, with write access TOKEN@SOURCE+write; none: one per source is created at the first start and kept in DATA_DIR",
  },
  OPS_PASSWORD: {
    schema: password,
    secret: true,
    unset: MADE,
    meaning:
      "operator password of the ops pages; none: one is created at the first start and kept in DATA_DIR",
  },
  OPS_VIEWER_PASSWORD: {
    schema: password,
    secret: true,
    unset: "created with OPS_PASSWORD, else no viewers",
    meaning:
      "viewer password of the ops pages: may look but not act; none: created together with OPS_PASSWORD, else no viewers",
  },
  METRICS_TOKEN: {
    schema: metricsToken,
    secret: true,
    unset: "created with API_TOKENS or OPS_PASSWORD, else metrics are closed",
    meaning:
      "bearer token of /metrics; none: created together with API_TOKENS or OPS_PASSWORD, else metrics are closed",
  },
  LOCAL_TRUST: {
    schema: oneOf(["true", "false"]).transform((value) => value === "true"),
    unset: "false; true for demo",
    meaning:
      "if no token or password is set, requests from this machine need none; for a developer's machine, never behind a proxy; none: false, but true for `demo`",
  },
  PUBLIC_URL: {
    schema: webAddresses,
    unset: "HOST and the names of this machine",
    meaning:
      "public addresses of the web process, comma separated, such as https://mirror.example.com; requests for other hosts are refused; a path is a prefix that a proxy removes, for webhooks only",
  },
  ...SIGN_ON_VARIABLES,
  ALERT_WEBHOOK_URL: {
    schema: alertAddress,
    secret: true,
    unset: "no alerts are sent",
    meaning: "address to which alerts are sent, firing and resolved; none: no alerts are sent",
  },
  ALERT_WEBHOOK_SECRET: {
    schema: text,
    secret: true,
    meaning: "secret with which alerts are signed (Standard Webhooks, whsec_…)",
  },
  WRITE_THROUGH: {
    schema: oneOf(["true", "false"]).transform((value) => value === "true"),
    default: "false",
    meaning: "forward writes to the provider, for tokens with +write",
  },
  WRITE_THROUGH_PATHS: {
    schema: forwardedPaths,
    unset: "the writes of the provider's contract",
    meaning:
      "further writes to forward, comma separated, such as PUT /v1/orders/{reference}/address; never keys or webhooks",
  },
  EVENTS_KEPT_FOR: {
    schema: keptFor,
    unset: "kept forever",
    meaning:
      "how long events are kept in full, from when they were received: ISO 8601 duration; none: forever, but 30 days if about no order",
  },
  HISTORY_KEPT_FOR: {
    schema: keptFor,
    unset: "kept forever",
    meaning:
      "how long observations of orders are kept, except each order's current one: ISO 8601 duration; none: forever",
  },
  CHANGES_KEPT_FOR: {
    schema: keptFor,
    unset: "kept forever",
    meaning: "how long the change feed is kept: ISO 8601 duration; none: forever",
  },
  OUTGOING_WEBHOOKS_FILE: {
    schema: text,
    unset: "no webhooks are sent",
    meaning:
      "JSON file that lists your own endpoints that are notified of changes; none: no webhooks are sent",
  },
  SANDBOX_PORT: {
    schema: wholeNumberVariable(0, PORT_MAX),
    default: "4010",
    meaning: "port of the sandbox provider",
  },
  SANDBOX_SEED: {
    schema: wholeNumberVariable(0, SEED_MAX),
    default: "1",
    meaning: "seed of the sandbox: the same seed creates the same orders",
  },
  LOG_LEVEL: {
    schema: oneOf(LOG_LEVELS),
    default: "info",
    meaning: `one of ${LOG_LEVELS.join(", ")}`,
  },
  LOG_FORMAT: {
    schema: oneOf(["json", "pretty"]),
    unset: "pretty on a terminal, else json",
    meaning: "json or pretty; none: pretty on a terminal, else json",
  },
} as const satisfies Record<string, Variable>;

export type VariableName = keyof typeof VARIABLES;

export type Values = ValuesOf<typeof VARIABLES>;

export const VARIABLE_NAMES = Object.keys(VARIABLES) as readonly VariableName[];

export function describeVariable(name: VariableName): Variable {
  return VARIABLES[name];
}
