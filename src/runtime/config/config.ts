import { ConfigurationError } from "../../domain/errors.ts";
import { hideLogin } from "../../domain/hideLogin.ts";
import { ENV_FILE, readEnvironment, type FoundText } from "./environment.ts";
import { checkOutgoing, webhookSchema, type OutgoingWebhook } from "./outgoingFile.ts";
import {
  KEY_VARIABLES,
  listSourceProblems,
  MODES,
  nameSources,
  readList,
  readListFile,
  readVariableSources,
  SECRETS_VARIABLES,
  sourceSchema,
  type CheckScheme,
  type NamedSource,
  type SourceConfig,
} from "./sources.ts";
import { describeVariable, VARIABLE_NAMES, type Values, type VariableName } from "./variables.ts";

/*
 * The configuration: texts of variables (environment.ts, or the options of a mirror in another program), parsed by the
 * schema of each (variables.ts), with the sources (sources.ts) and endpoints (outgoingFile.ts) that they list. All
 * problems are found and reported together.
 */

export type { SourceConfig } from "./sources.ts";

const SHOWN_LENGTH_MAX = 80;

/** All settings, parsed, checked and frozen. Null: not set. */
export type Config = Frozen<ReturnType<typeof makeConfig>>;
type Frozen<Made> = {
  readonly [Name in keyof Made]: Made[Name] extends (infer Entry)[] ? readonly Entry[] : Made[Name];
};

export interface ConfigChecks {
  readonly checkScheme: CheckScheme;
  /** The `.env` file; null for none. Default: `.env` in the current folder, if it exists. */
  readonly envFile?: string | null;
}

/** It may have no source; see requireSources. Throws ConfigurationError, a line per problem, without secrets. */
export function loadConfig(
  env: NodeJS.Dict<string>,
  { checkScheme, envFile = ENV_FILE }: ConfigChecks,
): Config {
  const environment = readEnvironment(env, envFile);
  const problems = [...environment.problems];
  const values = parseValues(environment.found, problems);
  // If a secret's file cannot be read, its source would be reported a second time, as lacking the secret.
  if (problems.length > 0 && environment.problems.length > 0)
    throw refuse([...problems, ...listValueProblems(values, checkScheme)]);
  const { SOURCES_FILE, OUTGOING_WEBHOOKS_FILE } = values;
  const listed = readListFile({ variable: "SOURCES_FILE", file: SOURCES_FILE }, sourceSchema, problems);
  const sources = [...readVariableSources(values, problems), ...nameSources(listed, values, problems)];
  problems.push(...listSourceProblems(sources, values, checkScheme));
  const endpoints = { variable: "OUTGOING_WEBHOOKS_FILE", file: OUTGOING_WEBHOOKS_FILE };
  // Without sources this is the demo or a command next to it, whose sources are named after the modes.
  const sourceIds = sources.length === 0 ? MODES : sources.map(({ sourceId }) => sourceId);
  const outgoing = checkOutgoing(readListFile(endpoints, webhookSchema, problems), {
    sourceIds,
    checkScheme,
    problems,
  });
  return checkConfig({ values, sources, outgoing, checkScheme, problems });
}

/** What SOURCES_FILE and OUTGOING_WEBHOOKS_FILE would list. */
export interface Lists {
  readonly sources: unknown;
  readonly outgoingWebhooks: unknown;
}

/**
 * The configuration of texts that are not in the environment, with what the files would list. Throws as loadConfig does;
 * the problems name variables, and the lists `sources` and `outgoingWebhooks`.
 */
export function makeConfigOf(
  texts: Readonly<Partial<Record<VariableName, string>>>,
  lists: Lists,
  checkScheme: CheckScheme,
): Config {
  const problems: string[] = [];
  const found = Object.entries(texts).map(([name, text]) => [name, { text, origin: "environment" }] as const);
  const values = parseValues(new Map(found as [VariableName, FoundText][]), problems);
  const here = { folder: ".", problems };
  const listed = readList({ name: "sources", list: lists.sources, schema: sourceSchema, problems });
  const sources = nameSources({ ...here, list: "sources", elements: listed }, values, problems);
  problems.push(...listSourceProblems(sources, values, checkScheme));
  const name = "outgoingWebhooks";
  const elements = readList({ name, list: lists.outgoingWebhooks, schema: webhookSchema, problems });
  const sourceIds = sources.map(({ sourceId }) => sourceId);
  const outgoing = checkOutgoing({ ...here, list: name, elements }, { sourceIds, checkScheme, problems });
  return checkConfig({ values, sources, outgoing, checkScheme, problems });
}

function checkConfig(deps: {
  values: Values;
  sources: readonly NamedSource[];
  outgoing: readonly OutgoingWebhook[];
  checkScheme: CheckScheme;
  problems: readonly string[];
}): Config {
  const { values, sources, outgoing, checkScheme } = deps;
  const problems = [...deps.problems, ...listValueProblems(values, checkScheme)];
  if (problems.length > 0) throw refuse(problems);
  return freeze(makeConfig(values, sources, outgoing));
}

function refuse(problems: readonly string[]): ConfigurationError {
  return new ConfigurationError([...new Set(problems)].join("\n"));
}

/** What several variables say together and cannot mean. */
function listValueProblems(values: Values, checkScheme: CheckScheme): string[] {
  const { ALERT_WEBHOOK_URL, ALERT_WEBHOOK_SECRET, OPS_PROXY_ADDRESSES, OPS_OPERATORS, OPS_VIEWERS } = values;
  const isSet = (name: VariableName) => values[name] !== null;
  const needs = (name: VariableName, other: VariableName, why: string) =>
    [isSet(name) && !isSet(other), `${name} is set without ${why}`] as const;
  const rules: (readonly [boolean, string])[] = [
    [
      isSet("OPS_PASSWORD") && values.OPS_PASSWORD === values.OPS_VIEWER_PASSWORD,
      "OPS_VIEWER_PASSWORD is the same as OPS_PASSWORD. Give viewers a different password.",
    ],
    [
      values.WEBHOOK_PORT === values.PORT && values.PORT !== 0,
      "WEBHOOK_PORT is the same as PORT. Choose another port, or unset it.",
    ],
    needs("DATABASE_DIRECT_URL", "DATABASE_URL", "DATABASE_URL. Set DATABASE_URL too."),
    needs(
      "ALERT_WEBHOOK_URL",
      "ALERT_WEBHOOK_SECRET",
      "ALERT_WEBHOOK_SECRET. Alerts are signed; set both or neither.",
    ),
    needs("ALERT_WEBHOOK_SECRET", "ALERT_WEBHOOK_URL", "ALERT_WEBHOOK_URL. Set both or neither."),
    [
      OPS_PROXY_ADDRESSES !== null && OPS_OPERATORS === null && OPS_VIEWERS === null,
      "Single sign-on is set, but nobody may log in. Set OPS_OPERATORS or OPS_VIEWERS.",
    ],
    needs("OPS_OPERATORS", "OPS_PROXY_ADDRESSES", "single sign-on. Set OPS_PROXY_ADDRESSES too."),
    needs("OPS_VIEWERS", "OPS_PROXY_ADDRESSES", "single sign-on. Set OPS_PROXY_ADDRESSES too."),
    [OPS_OPERATORS?.includes("*") === true, "OPS_OPERATORS is *. Name the groups or persons who may act."],
  ];
  const alertProblems =
    ALERT_WEBHOOK_URL === null || ALERT_WEBHOOK_SECRET === null
      ? []
      : checkScheme("standard-webhooks", [ALERT_WEBHOOK_SECRET]);
  return [
    ...rules.filter(([isWrong]) => isWrong).map(([, problem]) => problem),
    ...alertProblems.map((problem) => `ALERT_WEBHOOK_SECRET: ${problem}`),
  ];
}

/** The sources for which a process needs the provider's keys: all, those whose writes it forwards, or none. */
export type KeysFor = "reading" | "writing" | "nothing";

/**
 * Throws ConfigurationError, with a fix, if no source is configured, or if one lacks a key that is needed. A key
 * belongs only where it is used: anyone who holds one can order couriers.
 */
export function requireSources(config: Config, keysFor: KeysFor): void {
  const { sources, apiTokens, writeThrough } = config;
  if (sources.length === 0) {
    throw new ConfigurationError(
      "No source is configured: neither a provider key nor a webhook secret is set.",
      {
        fix: "Set DELIVERY_BASE_URL and DELIVERY_LIVE_API_KEY or DELIVERY_TEST_API_KEY, or SOURCES_FILE. To look around without an account, run `order-mirror demo`.",
      },
    );
  }
  const mayWrite = (sourceId: string) =>
    writeThrough && apiTokens.some((token) => token.mayWrite && token.sourceId === sourceId);
  const needsKey = ({ sourceId }: SourceConfig) =>
    keysFor === "reading" || (keysFor === "writing" && mayWrite(sourceId));
  const lacking = sources.filter((source) => source.apiKey === null && needsKey(source));
  if (lacking.length === 0) return;
  throw new ConfigurationError(
    `The provider key is missing for ${lacking.map(({ sourceId }) => sourceId).join(", ")}.`,
    {
      fix: "Set DELIVERY_LIVE_API_KEY or DELIVERY_TEST_API_KEY, or apiKey in SOURCES_FILE. Only `worker`, and `web` without WRITE_THROUGH, need no key.",
    },
  );
}

export interface ConfigRow {
  readonly name: string;
  /** For a secret, only its length. */
  readonly value: string;
  readonly source: FoundText["origin"] | "default";
}

/** The configuration in force: each variable with its origin, then the sources of the file. */
export function describeConfig(
  config: Config,
  env: NodeJS.Dict<string>,
  envFile: string | null = ENV_FILE,
): ConfigRow[] {
  const { found } = readEnvironment(env, envFile);
  const fromVariables: string[] = MODES.filter(
    (mode) => found.has(KEY_VARIABLES[mode]) || found.has(SECRETS_VARIABLES[mode]),
  );
  const listed = config.sources.filter(({ sourceId }) => !fromVariables.includes(sourceId));
  return [
    ...VARIABLE_NAMES.map((name) => describeValue(name, found.get(name))),
    ...listed.map(describeSource),
  ];
}

function describeValue(name: VariableName, found: FoundText | undefined): ConfigRow {
  const variable = describeVariable(name);
  if (!found) return { name, value: variable.default ?? "not set", source: "default" };
  const value = variable.secret ? `set, ${found.text.length} characters` : hideLogin(found.text);
  return { name, value, source: found.origin };
}

function describeSource(source: SourceConfig): ConfigRow {
  const { apiKey } = source;
  const parts = [
    `${source.mode} mode of ${source.organization} at ${source.baseUrl}`,
    apiKey === null ? "no key" : `key set, ${apiKey.length} characters`,
    `${source.webhookSecrets.length} webhook secrets`,
  ];
  return { name: `source ${source.sourceId}`, value: parts.join("; "), source: "file" };
}

/** Values of all variables; an invalid one is reported and replaced by its default. */
function parseValues(found: ReadonlyMap<VariableName, FoundText>, problems: string[]): Values {
  const values = VARIABLE_NAMES.map((name) => {
    const variable = describeVariable(name);
    const text = found.get(name)?.text;
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

function makeConfig(
  values: Values,
  sources: readonly NamedSource[],
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
    sources: sources.map(({ names: _names, ...source }) => source),
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

function freeze<Value>(value: Value): Value {
  if (typeof value !== "object" || value === null) return value;
  for (const part of Object.values(value)) freeze(part);
  return Object.freeze(value);
}
