import { ConfigurationError } from "../domain/errors.ts";
import { hideLogin } from "../domain/hideLogin.ts";
import type { Listed } from "./lists.ts";
import { listOwnSecretProblems, readEndpoints, type OutgoingWebhook } from "./outgoingFile.ts";
import { describeSetting, SETTING_NAMES, type SettingName, type Values } from "./settings.ts";
import { isOnThisMachine, MODES, readSources, type SourceConfig } from "./sources.ts";

/*
 * The configuration: the values of settings (settings.ts), and the lists of sources (sources.ts) and endpoints
 * (outgoingFile.ts). They come through one of two borders, the environment of a command (environment.ts) or the options
 * of a mirror in another program (options.ts). All problems are found and reported together, in the border's own names.
 */

export type { SourceConfig } from "./sources.ts";

const SHOWN_LENGTH_MAX = 80;
/** The spec, "What the service does", 6: at most one read per 30 seconds. */
const POLITE_INTERVAL_SECONDS = 30;

/** All settings, checked; null: not set. A configuration may have no source: see requireSources. */
export type Config = ReturnType<typeof combine>;

/** The settings and lists that a border hands over, unchecked. */
export interface Given {
  /** The settings that are set, each with its value and the text that shows it. */
  readonly settings: ReadonlyMap<SettingName, { readonly value: unknown; readonly text: string }>;
  readonly sources: Omit<Listed, "kind">;
  readonly endpoints: Omit<Listed, "kind">;
  /** The border's own name of a setting: its variable, or its option. */
  readonly nameOf: (setting: SettingName) => string;
}

/**
 * The configuration that is given. Throws ConfigurationError, a line per problem, without secrets; `problems` are those
 * that the border has found.
 */
export function makeConfig(given: Given, problems: string[]): Config {
  const { nameOf } = given;
  const values = checkValues(given, problems);
  const before = problems.length;
  const sources = readSources({ ...given.sources, kind: "source" }, values, problems);
  const areComplete = problems.length === before;
  // Without sources this is the demo or a command next to it, whose sources are named after the modes.
  const sourceIds: readonly string[] = sources.length === 0 ? MODES : sources.map(({ sourceId }) => sourceId);
  // A source with a problem is not among them, so nothing is said of those who name it.
  const isUnknown = (sourceId: string) => areComplete && !sourceIds.includes(sourceId);
  const endpoints = readEndpoints({ ...given.endpoints, kind: "endpoint" }, isUnknown, problems);
  problems.push(...listContradictions(values, sources, nameOf));
  for (const [index, { sourceId }] of values.apiTokens.entries())
    if (isUnknown(sourceId))
      problems.push(
        `${nameOf("apiTokens")}, token ${index + 1}, is for the source ${sourceId}, which does not exist. Write TOKEN@SOURCE with one of ${sourceIds.join(", ")}.`,
      );
  if (problems.length > 0) throw new ConfigurationError([...new Set(problems)].join("\n"));
  return combine(values, sources, endpoints);
}

/** The values of all settings; a wrong one is reported and replaced by its default. */
function checkValues({ settings, nameOf }: Given, problems: string[]): Values {
  const values = SETTING_NAMES.map((name) => {
    const { kind, fallback } = describeSetting(name);
    const given = settings.get(name);
    if (given === undefined) return [name, fallback];
    const checked = kind.check(given.value);
    if (checked.success) return [name, checked.data];
    const shown = kind.secret ? "" : show(given.text);
    for (const { message } of checked.error.issues) problems.push(`${nameOf(name)} ${message}${shown}.`);
    return [name, fallback];
  });
  return Object.fromEntries(values) as Values;
}

function show(text: string): string {
  const shown = hideLogin(text);
  return `, not ${JSON.stringify(shown.length > SHOWN_LENGTH_MAX ? `${shown.slice(0, SHOWN_LENGTH_MAX)}…` : shown)}`;
}

/** Settings that mean nothing without another one. */
const NEEDED: readonly (readonly [SettingName, SettingName])[] = [
  ["databaseDirectUrl", "databaseUrl"],
  ["alertWebhookUrl", "alertWebhookSecret"],
  ["alertWebhookSecret", "alertWebhookUrl"],
  ["opsOperators", "opsProxyAddresses"],
  ["opsViewers", "opsProxyAddresses"],
];

/** Lists what several settings say together and cannot mean, a sentence each. */
function listContradictions(
  values: Values,
  sources: readonly SourceConfig[],
  nameOf: Given["nameOf"],
): string[] {
  const { alertWebhookSecret, opsPassword, opsOperators } = values;
  const isSet = (name: SettingName) => {
    const value = values[name];
    return Array.isArray(value) ? value.length > 0 : value !== null;
  };
  const isHasty = values.pollIntervalSeconds < POLITE_INTERVAL_SECONDS;
  const operators = nameOf("opsOperators");
  const rules: (readonly [boolean, string])[] = [
    ...NEEDED.map(
      ([name, other]) =>
        [
          isSet(name) && !isSet(other),
          `${nameOf(name)} is set without ${nameOf(other)}. Set both or neither.`,
        ] as const,
    ),
    [
      opsPassword !== null && opsPassword === values.opsViewerPassword,
      `${nameOf("opsViewerPassword")} is the same as ${nameOf("opsPassword")}. Give viewers a different password.`,
    ],
    [
      isSet("opsProxyAddresses") && !isSet("opsOperators") && !isSet("opsViewers"),
      `Single sign-on is set, but nobody may log in. Set ${operators} or ${nameOf("opsViewers")}.`,
    ],
    [opsOperators.includes("*"), `${operators} is *. Name the groups or persons who may act.`],
    [
      values.writeThrough && !values.apiTokens.some(({ mayWrite }) => mayWrite),
      `${nameOf("writeThrough")} is on, but no token has write access. Add one to ${nameOf("apiTokens")} as TOKEN@SOURCE+write, or turn it off.`,
    ],
    [
      isHasty && !sources.every(({ baseUrl }) => isOnThisMachine(baseUrl)),
      `${nameOf("pollIntervalSeconds")} is under ${POLITE_INTERVAL_SECONDS}, which the provider does not allow. Leave it at 30; use less only for a provider on this machine.`,
    ],
  ];
  const alertProblems = alertWebhookSecret === null ? [] : listOwnSecretProblems([alertWebhookSecret]);
  return [
    ...rules.filter(([isWrong]) => isWrong).map(([, problem]) => problem),
    ...alertProblems.map((problem) => `${nameOf("alertWebhookSecret")} is wrong: ${problem}`),
  ];
}

/** Puts what several settings say together into one member. */
function combine(
  values: Values,
  sources: readonly SourceConfig[],
  outgoingWebhooks: readonly OutgoingWebhook[],
) {
  const { alertWebhookUrl: url, alertWebhookSecret: secret } = values;
  return {
    ...values,
    sources,
    outgoingWebhooks,
    localTrust: values.localTrust ?? false,
    signOn: makeSignOn(values),
    alertWebhook: url === null || secret === null ? null : { url, secret },
    // Logs go to stderr, so that stdout carries data only.
    logFormat: values.logFormat ?? (process.stderr.isTTY ? ("pretty" as const) : ("json" as const)),
  };
}

/** The rules by which people sign on with a proxy. */
export type SignOn = NonNullable<ReturnType<typeof makeSignOn>>;

function makeSignOn(values: Values) {
  if (values.opsProxyAddresses.length === 0) return null;
  return {
    /** Addresses whose headers are trusted, and networks such as 10.0.0.0/8. */
    addresses: values.opsProxyAddresses,
    userHeader: values.opsUserHeader,
    groupsHeader: values.opsGroupsHeader,
    operators: values.opsOperators,
    viewers: values.opsViewers,
  };
}

/** The sources for which a process needs the provider's keys: all, those whose writes it forwards, or none. */
export type KeysFor = "reading" | "writing" | "nothing";

/** The fix for a missing key, for a person who runs the commands. */
const KEY_FIX =
  "Set DELIVERY_LIVE_API_KEY or DELIVERY_TEST_API_KEY, or apiKey in SOURCES_FILE. Only `worker`, and `web` without WRITE_THROUGH, need no key.";

/**
 * Throws ConfigurationError, with a fix, if no source is configured, or if one lacks a key that is needed. A key
 * belongs only where it is used: anyone who holds one can order couriers.
 */
export function requireSources(
  { sources, apiTokens, writeThrough }: Config,
  keysFor: KeysFor,
  { keyFix = KEY_FIX }: { keyFix?: string } = {},
): void {
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
    { fix: keyFix },
  );
}
