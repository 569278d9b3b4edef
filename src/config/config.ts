import { ConfigurationError } from "../domain/errors.ts";
import { hideLogin } from "../domain/hideLogin.ts";
import { checkScheme } from "../signature/verifier.ts";
import { ENV_FILE, readEnvironment, type FoundText } from "./environment.ts";
import { readListFile, type Listed } from "./lists.ts";
import { readEndpoints, type OutgoingWebhook } from "./outgoingFile.ts";
import { isOnThisMachine, MODES, readSources, type SourceConfig } from "./sources.ts";
import { describeVariable, VARIABLE_NAMES, type Values, type VariableName } from "./variables.ts";

/*
 * The configuration: texts of variables (environment.ts, or the options of a mirror in another program) and two lists
 * (lists.ts). The schema of each variable parses its text (variables.ts), that of sources (sources.ts) and of endpoints
 * (outgoingFile.ts) the elements of the lists. All problems are found and reported together.
 */

export type { SourceConfig } from "./sources.ts";

const SHOWN_LENGTH_MAX = 80;
/** The spec, "What the service does", 6: at most one read per 30 seconds. */
const POLITE_INTERVAL_SECONDS = 30;

/** All settings, parsed and checked. Null: not set. */
export type Config = ReturnType<typeof describeSettings>;

/**
 * `envFile` is null for none, and may be missing. It may have no source; see requireSources. Throws ConfigurationError, a
 * line per problem, without secrets.
 */
export function loadConfig(env: NodeJS.Dict<string>, envFile: string | null = ENV_FILE): Config {
  const problems: string[] = [];
  const found = readEnvironment(env, envFile, problems);
  const texts = Object.fromEntries([...found].map(([name, { text }]) => [name, text])) as Texts;
  const readList = (name: "SOURCES_FILE" | "OUTGOING_WEBHOOKS_FILE") => ({
    name,
    elements: readListFile(name, texts[name], problems),
  });
  const lists = { sources: readList("SOURCES_FILE"), endpoints: readList("OUTGOING_WEBHOOKS_FILE") };
  return makeConfig(texts, lists, problems);
}

type Texts = Readonly<Partial<Record<VariableName, string>>>;

/**
 * The configuration of these texts and lists. Throws as loadConfig does, also for the problems that were found before.
 * They name variables and places in the lists.
 */
export function makeConfig(
  texts: Texts,
  lists: Readonly<Record<"sources" | "endpoints", Omit<Listed, "kind">>>,
  problems: string[] = [],
): Config {
  const values = parseValues(texts, problems);
  const before = problems.length;
  const sources = readSources({ ...lists.sources, kind: "source" }, values, problems);
  const areComplete = problems.length === before;
  // Without sources this is the demo or a command next to it, whose sources are named after the modes.
  const sourceIds: readonly string[] = sources.length === 0 ? MODES : sources.map(({ sourceId }) => sourceId);
  // A source with a problem is not among them, so nothing is said of those who name it.
  const isUnknown = (sourceId: string) => areComplete && !sourceIds.includes(sourceId);
  const endpoints = readEndpoints({ ...lists.endpoints, kind: "endpoint" }, isUnknown, problems);
  problems.push(...listContradictions(values, sources));
  for (const [index, { sourceId }] of (values.API_TOKENS ?? []).entries())
    if (isUnknown(sourceId))
      problems.push(
        `API_TOKENS, token ${index + 1}, is for the source ${sourceId}, which does not exist. Write TOKEN@SOURCE with one of ${sourceIds.join(", ")}.`,
      );
  if (problems.length > 0) throw new ConfigurationError([...new Set(problems)].join("\n"));
  return describeSettings(values, sources, endpoints);
}

/** Variables that mean nothing without another one. */
const NEEDED: readonly (readonly [VariableName, VariableName])[] = [
  ["DATABASE_DIRECT_URL", "DATABASE_URL"],
  ["ALERT_WEBHOOK_URL", "ALERT_WEBHOOK_SECRET"],
  ["ALERT_WEBHOOK_SECRET", "ALERT_WEBHOOK_URL"],
  ["OPS_OPERATORS", "OPS_PROXY_ADDRESSES"],
  ["OPS_VIEWERS", "OPS_PROXY_ADDRESSES"],
];

/** What several variables say together and cannot mean. */
function listContradictions(values: Values, sources: readonly SourceConfig[]): string[] {
  const { ALERT_WEBHOOK_SECRET, OPS_PASSWORD, OPS_PROXY_ADDRESSES, OPS_OPERATORS, OPS_VIEWERS } = values;
  const isHasty = values.POLL_INTERVAL_SECONDS < POLITE_INTERVAL_SECONDS;
  const rules: (readonly [boolean, string])[] = [
    ...NEEDED.map(
      ([name, other]) =>
        [
          values[name] !== null && values[other] === null,
          `${name} is set without ${other}. Set both or neither.`,
        ] as const,
    ),
    [
      OPS_PASSWORD !== null && OPS_PASSWORD === values.OPS_VIEWER_PASSWORD,
      "OPS_VIEWER_PASSWORD is the same as OPS_PASSWORD. Give viewers a different password.",
    ],
    [
      OPS_PROXY_ADDRESSES !== null && OPS_OPERATORS === null && OPS_VIEWERS === null,
      "Single sign-on is set, but nobody may log in. Set OPS_OPERATORS or OPS_VIEWERS.",
    ],
    [OPS_OPERATORS?.includes("*") === true, "OPS_OPERATORS is *. Name the groups or persons who may act."],
    [
      values.WRITE_THROUGH && values.API_TOKENS?.some(({ mayWrite }) => mayWrite) !== true,
      "WRITE_THROUGH is on, but no token has write access. Add one to API_TOKENS as TOKEN@SOURCE+write, or turn it off.",
    ],
    [
      isHasty && !sources.every(({ baseUrl }) => isOnThisMachine(baseUrl)),
      `POLL_INTERVAL_SECONDS is under ${POLITE_INTERVAL_SECONDS}, which the provider does not allow. Leave it at 30; use less only for a provider on this machine.`,
    ],
  ];
  const alertProblems =
    ALERT_WEBHOOK_SECRET === null ? [] : checkScheme("standard-webhooks", [ALERT_WEBHOOK_SECRET]);
  return [
    ...rules.filter(([isWrong]) => isWrong).map(([, problem]) => problem),
    ...alertProblems.map((problem) => `ALERT_WEBHOOK_SECRET is wrong: ${problem}`),
  ];
}

/** The sources for which a process needs the provider's keys: all, those whose writes it forwards, or none. */
export type KeysFor = "reading" | "writing" | "nothing";

/**
 * Throws ConfigurationError, with a fix, if no source is configured, or if one lacks a key that is needed. A key
 * belongs only where it is used: anyone who holds one can order couriers.
 */
export function requireSources({ sources, apiTokens, writeThrough }: Config, keysFor: KeysFor): void {
  if (sources.length === 0) {
    throw new ConfigurationError(
      "No source is configured: neither a provider key nor a webhook secret is set.",
      {
        fix: "Set DELIVERY_BASE_URL and DELIVERY_LIVE_API_KEY or DELIVERY_TEST_API_KEY, or SOURCES_FILE. To look around without an account, run `order-mirror demo`.",
      },
    );
  }
  const writable = apiTokens.filter(({ mayWrite }) => writeThrough && mayWrite);
  const needsKey = (sourceId: string) =>
    keysFor === "reading" || (keysFor === "writing" && writable.some((token) => token.sourceId === sourceId));
  const lacking = sources.filter(({ sourceId, apiKey }) => apiKey === null && needsKey(sourceId));
  if (lacking.length === 0) return;
  throw new ConfigurationError(
    `The provider key is missing for ${lacking.map(({ sourceId }) => sourceId).join(", ")}.`,
    {
      fix: "Set DELIVERY_LIVE_API_KEY or DELIVERY_TEST_API_KEY, or apiKey in SOURCES_FILE. Only `worker`, and `web` without WRITE_THROUGH, need no key.",
    },
  );
}

export interface ConfigRow {
  readonly name: VariableName;
  /** For a secret, only its length. */
  readonly value: string;
  readonly source: FoundText["origin"] | "default";
}

/** Each variable in force, with its origin. */
export function describeConfig(env: NodeJS.Dict<string>, envFile: string | null = ENV_FILE): ConfigRow[] {
  const found = readEnvironment(env, envFile);
  return VARIABLE_NAMES.map((name) => {
    const variable = describeVariable(name);
    const set = found.get(name);
    if (!set) return { name, value: variable.default ?? "not set", source: "default" };
    const value = variable.secret ? `set, ${set.text.length} characters` : hideLogin(set.text);
    return { name, value, source: set.origin };
  });
}

/** Values of all variables; an invalid one is reported and replaced by its default. */
function parseValues(texts: Texts, problems: string[]): Values {
  const values = VARIABLE_NAMES.map((name) => {
    const variable = describeVariable(name);
    const text = texts[name];
    const result = text === undefined ? undefined : variable.schema.safeParse(text);
    if (result?.success === true) return [name, result.data];
    for (const { message } of result?.error.issues ?? [])
      problems.push(`${name} ${message}${variable.secret ? "" : show(text ?? "")}.`);
    return [name, variable.default === undefined ? null : variable.schema.parse(variable.default)];
  });
  return Object.fromEntries(values) as Values;
}

function show(text: string): string {
  const shown = hideLogin(text);
  return `, not ${JSON.stringify(shown.length > SHOWN_LENGTH_MAX ? `${shown.slice(0, SHOWN_LENGTH_MAX)}…` : shown)}`;
}

/** How people sign on with a proxy. */
export type SignOn = NonNullable<ReturnType<typeof makeSignOn>>;

function makeSignOn(values: Values) {
  const { OPS_PROXY_ADDRESSES: addresses, OPS_OPERATORS, OPS_VIEWERS } = values;
  if (addresses === null) return null;
  return {
    /** Addresses whose headers are trusted, and networks such as 10.0.0.0/8. */
    addresses,
    userHeader: values.OPS_USER_HEADER,
    groupsHeader: values.OPS_GROUPS_HEADER,
    operators: OPS_OPERATORS ?? [],
    viewers: OPS_VIEWERS ?? [],
  };
}

function describeSettings(
  values: Values,
  sources: readonly SourceConfig[],
  outgoingWebhooks: readonly OutgoingWebhook[],
) {
  const { ALERT_WEBHOOK_URL: url, ALERT_WEBHOOK_SECRET: secret } = values;
  return {
    databaseUrl: values.DATABASE_URL,
    databaseDirectUrl: values.DATABASE_DIRECT_URL,
    dataDir: values.DATA_DIR,
    // Empty: the queue is in Postgres. Several: the nodes of a cluster.
    redisUrls: values.REDIS_URL ?? [],
    host: values.HOST,
    port: values.PORT,
    webhookPort: values.WEBHOOK_PORT,
    healthPort: values.HEALTH_PORT,
    captureRefused: values.CAPTURE_REFUSED,
    sources,
    pollIntervalSeconds: values.POLL_INTERVAL_SECONDS,
    pollMarginSeconds: values.POLL_MARGIN_SECONDS,
    pollPace: values.POLL_PACE,
    // 0 to 1.
    rateShare: values.RATE_SHARE_PERCENT / 100,
    backfillSince: values.BACKFILL_SINCE,
    apiTokens: values.API_TOKENS ?? [],
    opsPassword: values.OPS_PASSWORD,
    opsViewerPassword: values.OPS_VIEWER_PASSWORD,
    metricsToken: values.METRICS_TOKEN,
    signOn: makeSignOn(values),
    localTrust: values.LOCAL_TRUST ?? false,
    // The first is used in links.
    publicUrls: values.PUBLIC_URL ?? [],
    alertWebhook: url === null || secret === null ? null : { url, secret },
    writeThrough: values.WRITE_THROUGH,
    eventsKeptFor: values.EVENTS_KEPT_FOR,
    historyKeptFor: values.HISTORY_KEPT_FOR,
    changesKeptFor: values.CHANGES_KEPT_FOR,
    outgoingWebhooks,
    sandboxPort: values.SANDBOX_PORT,
    sandboxSeed: values.SANDBOX_SEED,
    logLevel: values.LOG_LEVEL,
    // Logs go to stderr, so that stdout carries data only.
    logFormat: values.LOG_FORMAT ?? (process.stderr.isTTY ? "pretty" : "json"),
  };
}
