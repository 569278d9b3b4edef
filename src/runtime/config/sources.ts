import path from "node:path";
import { z } from "zod";
import type { Mode } from "../../domain/source/orderSource.ts";
import { makeSecretReader, readListFile } from "./listFile.ts";
import { findAddressProblem, isOnThisMachine, trimAddress } from "./providerAddress.ts";
import { list } from "./variableSchemas.ts";
import type { Values } from "./variables.ts";

export const MODES: readonly Mode[] = ["live", "test"];

/** One organization in one mode at the provider. */
export interface SourceConfig {
  readonly sourceId: string;
  readonly mode: Mode;
  /** Sources with the same organization and mode share the provider's rate limits. */
  readonly organization: string;
  /** Without a trailing slash. */
  readonly baseUrl: string;
  /** Identifies the provider if its address does not: the address of the demo's sandbox may change. */
  readonly provider?: string;
  /** Null if this process needs none; see requireSources. */
  readonly apiKey: string | null;
  /** All are valid; empty: this source is polled only. */
  readonly webhookSecrets: readonly string[];
  /** Name of a preset, or the JSON of a scheme. */
  readonly webhookScheme: string;
}

/** A source, with the names that its settings have where they were written. */
export interface NamedSource extends SourceConfig {
  readonly names: Readonly<Record<"baseUrl" | "apiKey" | "webhookSecrets" | "webhookScheme", string>>;
}

/** The webhook address of a source as entered at the provider; undefined if no public address is configured. */
export function webhookUrl(publicUrls: readonly string[], sourceId: string): string | undefined {
  const [base] = publicUrls;
  return base === undefined ? undefined : `${trimAddress(base)}/webhooks/${sourceId}`;
}

const DEFAULT_ORGANIZATION = "default";

/** The key of a source that requireSources has checked. */
export function keyOf({ sourceId, apiKey }: SourceConfig): string {
  if (apiKey === null) throw new TypeError(`the source ${sourceId} has no key`);
  return apiKey;
}

/** The variable that creates the source of a mode. */
export const KEY_VARIABLES = { live: "DELIVERY_LIVE_API_KEY", test: "DELIVERY_TEST_API_KEY" } as const;

/** The variable of a mode's webhook secrets. It also creates the source, for receiving and reading only. */
export const SECRETS_VARIABLES = {
  live: "DELIVERY_LIVE_WEBHOOK_SECRETS",
  test: "DELIVERY_TEST_WEBHOOK_SECRETS",
} as const;

/** The sources `live` and `test` of the DELIVERY_ variables. Each exists if its key or its secrets are set. */
export function readVariableSources(values: Values, problems: string[]): NamedSource[] {
  return MODES.flatMap((mode) => {
    const keyName = KEY_VARIABLES[mode];
    const secretsName = SECRETS_VARIABLES[mode];
    const apiKey = values[keyName];
    const webhookSecrets = values[secretsName] ?? [];
    if (apiKey === null && webhookSecrets.length === 0) return [];
    if (values.DELIVERY_BASE_URL === null) {
      const name = apiKey === null ? secretsName : keyName;
      problems.push(`${name} is set without DELIVERY_BASE_URL. Set it to the provider's base address.`);
      return [];
    }
    return {
      sourceId: mode,
      mode,
      organization: DEFAULT_ORGANIZATION,
      baseUrl: trimAddress(values.DELIVERY_BASE_URL),
      apiKey,
      webhookSecrets,
      webhookScheme: values.WEBHOOK_SCHEME,
      names: {
        baseUrl: "DELIVERY_BASE_URL",
        apiKey: keyName,
        webhookSecrets: secretsName,
        webhookScheme: "WEBHOOK_SCHEME",
      },
    };
  });
}

const NAME_LENGTH_MAX = 64;
const secret = z.string().trim().min(1);

/** A source as SOURCES_FILE lists it. */
export const sourceSchema = z.strictObject({
  sourceId: z
    .string()
    .regex(/^[a-z0-9][a-z0-9_-]{0,62}$/, "must be 1 to 63 of a-z, 0-9, _ and -, starting with a-z or 0-9"),
  mode: z.enum(MODES),
  organization: z.string().min(1).max(NAME_LENGTH_MAX),
  baseUrl: z.string().optional(),
  apiKey: secret.optional(),
  apiKeyFile: z.string().min(1).optional(),
  webhookSecrets: z.array(secret).optional(),
  webhookSecretsFile: z.string().min(1).optional(),
  webhookScheme: z.union([z.string().min(1), z.record(z.string(), z.unknown())]).optional(),
});
type ListedSource = z.output<typeof sourceSchema>;

/** The sources in SOURCES_FILE. File names in it are relative to its folder. */
export function readFileSources(values: Values, problems: string[]): NamedSource[] {
  const file = values.SOURCES_FILE;
  if (file === null) return [];
  const listed = readListFile({ variable: "SOURCES_FILE", file, schema: sourceSchema, problems });
  return nameSources(listed, { list: "SOURCES_FILE", folder: path.dirname(file), values, problems });
}

/** Completes listed sources with the values of all; each problem names `list`. */
export function nameSources(
  listed: readonly ListedSource[],
  context: { list: string; folder: string; values: Values; problems: string[] },
): NamedSource[] {
  const { values, problems } = context;
  return listed.flatMap((source) => {
    const place = `${context.list}, source ${source.sourceId},`;
    const read = makeSecretReader({ folder: context.folder, place, problems });
    const apiKey = source.apiKey ?? read("apiKeyFile", source.apiKeyFile);
    const secretLines = read("webhookSecretsFile", source.webhookSecretsFile);
    const baseUrl = source.baseUrl ?? values.DELIVERY_BASE_URL;
    const before = problems.length;
    refuseDoubles(source, place, problems);
    if (baseUrl === null) problems.push(`${place} has no baseUrl. Add it, or set DELIVERY_BASE_URL for all.`);
    if (problems.length > before || baseUrl === null) return [];
    return {
      sourceId: source.sourceId,
      mode: source.mode,
      organization: source.organization,
      baseUrl: trimAddress(baseUrl),
      apiKey: apiKey ?? null,
      webhookSecrets: source.webhookSecrets ?? list.parse(secretLines ?? ""),
      webhookScheme: schemeText(source) ?? values.WEBHOOK_SCHEME,
      names: {
        baseUrl: `${place} baseUrl`,
        apiKey: `${place} apiKey`,
        webhookSecrets: `${place} webhookSecrets`,
        webhookScheme: `${place} webhookScheme`,
      },
    };
  });
}

function refuseDoubles(source: ListedSource, place: string, problems: string[]): void {
  for (const name of ["apiKey", "webhookSecrets"] as const) {
    if (source[name] !== undefined && source[`${name}File`] !== undefined) {
      problems.push(`${place} has both ${name} and ${name}File. Keep one of them.`);
    }
  }
}

function schemeText({ webhookScheme }: ListedSource): string | undefined {
  return typeof webhookScheme === "object" ? JSON.stringify(webhookScheme) : webhookScheme;
}

/** The problems of a scheme and its secrets, one sentence each; `url` is the endpoint's public address, if known. */
export type CheckScheme = (schemeText: string, secrets: readonly string[], url?: string) => string[];

/** The spec, "Authentication": a key is `<prefix>_test_…` or `<prefix>_live_…`. */
const KEY_MODE = /^\S+?_(live|test)_\S+$/;
const POLITE_INTERVAL_SECONDS = 30;

/** Problems of the sources that cannot be seen in a single variable, one sentence each; none contains a secret. */
export function listSourceProblems(
  sources: readonly NamedSource[],
  values: Values,
  checkScheme: CheckScheme,
): string[] {
  const address =
    values.DELIVERY_BASE_URL === null ? undefined : findAddressProblem(values.DELIVERY_BASE_URL);
  return [
    ...(address === undefined ? [] : [`DELIVERY_BASE_URL ${address}.`]),
    ...checkScheme(values.WEBHOOK_SCHEME, []).map((problem) => `WEBHOOK_SCHEME: ${problem}`),
    ...sources.flatMap((source) => listOwnProblems(source, checkScheme, values.PUBLIC_URL ?? [])),
    ...findDuplicateSources(sources),
    ...listSharedSecrets(sources),
    ...listTokenProblems(sources, values),
    ...listIntervalProblems(sources, values),
  ];
}

function listOwnProblems(
  source: NamedSource,
  checkScheme: CheckScheme,
  publicUrls: readonly string[],
): string[] {
  const { sourceId, names, baseUrl, webhookScheme, webhookSecrets } = source;
  const problems: string[] = [];
  const address = findAddressProblem(baseUrl);
  if (address !== undefined) problems.push(`${names.baseUrl} ${address}.`);
  const keyProblem = findKeyProblem(source);
  if (keyProblem !== undefined) problems.push(keyProblem);
  const schemeProblems = checkScheme(webhookScheme, []);
  problems.push(...schemeProblems.map((problem) => `${names.webhookScheme}: ${problem}`));
  if (schemeProblems.length === 0 && webhookSecrets.length > 0) {
    const url = webhookUrl(publicUrls, sourceId);
    const found = checkScheme(webhookScheme, webhookSecrets, url);
    problems.push(...found.map((problem) => `${names.webhookSecrets}: ${problem}`));
  }
  return problems;
}

function findKeyProblem({ apiKey, mode, names }: NamedSource): string | undefined {
  if (apiKey === null) return undefined;
  const keyMode = KEY_MODE.exec(apiKey)?.[1];
  if (keyMode === mode) return undefined;
  if (keyMode === undefined) {
    return `${names.apiKey} is not a provider key: keys are one word with _${mode}_ after the prefix. Copy it again.`;
  }
  return `${names.apiKey} belongs to ${mode} mode but holds a ${keyMode} key. Replace it with a ${mode} key.`;
}

function findDuplicateSources(sources: readonly NamedSource[]): string[] {
  return sources.flatMap(({ sourceId, apiKey, names }, index) => {
    const earlier = sources.slice(0, index);
    const isListed = earlier.some((other) => other.sourceId === sourceId);
    const twin = earlier.findLast((other) => apiKey !== null && other.apiKey === apiKey);
    const listedTwice = `There are two sources named ${sourceId}. Use each sourceId once; the DELIVERY_ variables also create the sources live and test.`;
    return [
      ...(isListed ? [listedTwice] : []),
      ...(twin
        ? [`${names.apiKey} is the same key as ${twin.names.apiKey}. Each source needs its own.`]
        : []),
    ];
  });
}

/** The provider issues separate secrets per mode; a shared one would let a test event pass as live. */
function listSharedSecrets(sources: readonly NamedSource[]): string[] {
  const owners = new Map<string, { mode: Mode; name: string }>();
  const problems: string[] = [];
  for (const { mode, names, webhookSecrets } of sources) {
    for (const secret of new Set(webhookSecrets)) {
      const owner = owners.get(secret);
      if (owner && owner.mode !== mode) {
        problems.push(
          `${names.webhookSecrets} shares a secret with ${owner.name}, which belongs to the other mode. Copy each endpoint's own secret.`,
        );
      }
      owners.set(secret, owner ?? { mode, name: names.webhookSecrets });
    }
  }
  return problems;
}

function listTokenProblems(sources: readonly NamedSource[], { API_TOKENS, WRITE_THROUGH }: Values): string[] {
  // Without sources the product can only run the demo, which has live and test.
  const known = sources.length === 0 ? ["live", "test"] : sources.map(({ sourceId }) => sourceId);
  const problems: string[] = [];
  const seen = new Set<string>();
  for (const [index, { token, sourceId }] of (API_TOKENS ?? []).entries()) {
    const name = `API_TOKENS, token ${index + 1},`;
    if (!known.includes(sourceId)) {
      problems.push(
        `${name} is for the source ${sourceId}, which does not exist. Write TOKEN@SOURCE with one of ${known.join(", ")}.`,
      );
    }
    if (seen.has(token)) problems.push(`${name} is listed twice. List each token once.`);
    seen.add(token);
  }
  if (WRITE_THROUGH && !API_TOKENS?.some(({ mayWrite }) => mayWrite)) {
    problems.push(
      "WRITE_THROUGH is on, but no token has write access. Add one to API_TOKENS as TOKEN@SOURCE+write, or turn it off.",
    );
  }
  return problems;
}

/** The spec, "What the service does", 6: at most one read per 30 seconds. */
function listIntervalProblems(sources: readonly NamedSource[], { POLL_INTERVAL_SECONDS }: Values): string[] {
  if (POLL_INTERVAL_SECONDS >= POLITE_INTERVAL_SECONDS) return [];
  if (sources.every(({ baseUrl }) => isOnThisMachine(baseUrl))) return [];
  return [
    `POLL_INTERVAL_SECONDS is under ${POLITE_INTERVAL_SECONDS}, which the provider does not allow. Leave it at 30; use less only for a provider on this machine.`,
  ];
}
