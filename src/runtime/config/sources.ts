import { readFileSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import { hideLogin } from "../../domain/hideLogin.ts";
import { describeSchemaIssue } from "../../domain/schemaIssue.ts";
import type { Mode } from "../../domain/source/orderSource.ts";
import { namesThisMachine } from "../http/loopback.ts";
import { describeReadError, readSecretFile } from "./environment.ts";
import { holdsLogin, isUnprotected, list, type Values } from "./variables.ts";

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
    const names = {
      baseUrl: "DELIVERY_BASE_URL",
      apiKey: KEY_VARIABLES[mode],
      webhookSecrets: SECRETS_VARIABLES[mode],
      webhookScheme: "WEBHOOK_SCHEME",
    } as const;
    const apiKey = values[names.apiKey];
    const webhookSecrets = values[names.webhookSecrets] ?? [];
    const baseUrl = values.DELIVERY_BASE_URL;
    if (apiKey === null && webhookSecrets.length === 0) return [];
    if (baseUrl === null) {
      const name = apiKey === null ? names.webhookSecrets : names.apiKey;
      problems.push(`${name} is set without DELIVERY_BASE_URL. Set it to the provider's base address.`);
      return [];
    }
    const webhookScheme = values.WEBHOOK_SCHEME;
    const own = { sourceId: mode, mode, organization: "default", baseUrl: trimAddress(baseUrl) };
    return { ...own, apiKey, webhookSecrets, webhookScheme, names };
  });
}

/** A list of sources or of endpoints: its name in problems, and the folder that its file names are relative to. */
export interface Listed<Element> {
  readonly list: string;
  readonly folder: string;
  readonly elements: readonly Element[];
}

/** The list in the file that a variable names; empty if it is not set or invalid, with a problem per mistake. */
export function readListFile<Element extends z.ZodType>(
  { variable, file }: { variable: string; file: string | null },
  schema: Element,
  problems: string[],
): Listed<z.output<Element>> {
  const listed = { list: variable, folder: path.dirname(file ?? "."), elements: [] };
  if (file === null) return listed;
  const place = `${variable} names ${path.resolve(hideLogin(file))}, which`;
  try {
    const json: unknown = JSON.parse(readFileSync(file, "utf8"));
    return { ...listed, elements: readList({ name: place, list: json, schema, problems }) };
  } catch (error) {
    // The message of JSON.parse quotes the file, which holds keys.
    const reason = error instanceof SyntaxError ? "is not valid JSON" : describeReadError(error);
    problems.push(`${place} ${reason}.`);
    return listed;
  }
}

/** The elements of a list; of an invalid one none, with a problem per mistake, each a sentence that begins with `name`. */
export function readList<Element extends z.ZodType>(options: {
  name: string;
  list: unknown;
  schema: Element;
  problems: string[];
}): z.output<Element>[] {
  const { name, schema, problems } = options;
  const result = z.array(schema).safeParse(options.list, { error: describeSchemaIssue });
  for (const issue of result.error?.issues ?? []) {
    const where = issue.path.length === 0 ? "" : ` at ${issue.path.join(".")}`;
    problems.push(`${name} is invalid${where}: ${issue.message}.`);
  }
  return result.data ?? [];
}

/** Reads the secrets that elements of a list give as file names, relative to the folder of the list. */
export function makeSecretReader(context: { folder: string; place: string; problems: string[] }) {
  const { folder, place, problems } = context;
  return (name: string, file: string | undefined): string | undefined => {
    if (file === undefined) return undefined;
    const found = readSecretFile(path.resolve(folder, file));
    if ("text" in found) return found.text;
    problems.push(`${place} ${name} names ${path.resolve(folder, hideLogin(file))}, which ${found.problem}.`);
    return undefined;
  };
}

export const listName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,62}$/, "must be 1 to 63 of a-z, 0-9, _ and -, starting with a-z or 0-9");
const secret = z.string().trim().min(1);

/** A source as SOURCES_FILE lists it. */
export const sourceSchema = z.strictObject({
  sourceId: listName,
  mode: z.enum(MODES),
  organization: z.string().min(1).max(64),
  baseUrl: z.string().optional(),
  apiKey: secret.optional(),
  apiKeyFile: z.string().min(1).optional(),
  webhookSecrets: z.array(secret).optional(),
  webhookSecretsFile: z.string().min(1).optional(),
  webhookScheme: z.union([z.string().min(1), z.record(z.string(), z.unknown())]).optional(),
});

/** Completes listed sources with the values of all; each problem names the list. */
export function nameSources(
  { list: name, folder, elements }: Listed<z.output<typeof sourceSchema>>,
  values: Values,
  problems: string[],
): NamedSource[] {
  return elements.flatMap((source) => {
    const { sourceId, mode, organization, webhookScheme = values.WEBHOOK_SCHEME } = source;
    const place = `${name}, source ${sourceId},`;
    const read = makeSecretReader({ folder, place, problems });
    const before = problems.length;
    const apiKey = source.apiKey ?? read("apiKeyFile", source.apiKeyFile) ?? null;
    const secretLines = read("webhookSecretsFile", source.webhookSecretsFile) ?? "";
    const baseUrl = source.baseUrl ?? values.DELIVERY_BASE_URL;
    for (const each of ["apiKey", "webhookSecrets"] as const)
      if (source[each] !== undefined && source[`${each}File`] !== undefined)
        problems.push(`${place} has both ${each} and ${each}File. Keep one of them.`);
    if (baseUrl === null) problems.push(`${place} has no baseUrl. Add it, or set DELIVERY_BASE_URL for all.`);
    if (problems.length > before || baseUrl === null) return [];
    const names = {
      baseUrl: `${place} baseUrl`,
      apiKey: `${place} apiKey`,
      webhookSecrets: `${place} webhookSecrets`,
      webhookScheme: `${place} webhookScheme`,
    };
    return {
      sourceId,
      mode,
      organization,
      apiKey,
      names,
      baseUrl: trimAddress(baseUrl),
      webhookSecrets: source.webhookSecrets ?? list.parse(secretLines),
      webhookScheme: typeof webhookScheme === "string" ? webhookScheme : JSON.stringify(webhookScheme),
    };
  });
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
  const address = values.DELIVERY_BASE_URL ?? undefined;
  return [
    ...listAddressProblems("DELIVERY_BASE_URL", address),
    ...checkScheme(values.WEBHOOK_SCHEME, []).map((problem) => `WEBHOOK_SCHEME: ${problem}`),
    ...sources.flatMap((source) => listOwnProblems(source, checkScheme, values.PUBLIC_URL ?? [])),
    ...sources.flatMap((source, index) => listClashes(source, sources.slice(0, index))),
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
  const schemeProblems = checkScheme(webhookScheme, []);
  const url = webhookUrl(publicUrls, sourceId);
  const areSecretsChecked = schemeProblems.length === 0 && webhookSecrets.length > 0;
  const secretProblems = areSecretsChecked ? checkScheme(webhookScheme, webhookSecrets, url) : [];
  return [
    ...listAddressProblems(names.baseUrl, baseUrl),
    ...listKeyProblems(source),
    ...schemeProblems.map((problem) => `${names.webhookScheme}: ${problem}`),
    ...secretProblems.map((problem) => `${names.webhookSecrets}: ${problem}`),
  ];
}

function listAddressProblems(name: string, address: string | undefined): string[] {
  const problem = address === undefined ? undefined : findAddressProblem(address);
  return problem === undefined ? [] : [`${name} ${problem}.`];
}

function listKeyProblems({ apiKey, mode, names }: NamedSource): string[] {
  const keyMode = KEY_MODE.exec(apiKey ?? "")?.[1];
  if (apiKey === null || keyMode === mode) return [];
  return [
    keyMode === undefined
      ? `${names.apiKey} is not a provider key: keys are one word with _${mode}_ after the prefix. Copy it again.`
      : `${names.apiKey} belongs to ${mode} mode but holds a ${keyMode} key. Replace it with a ${mode} key.`,
  ];
}

/** The provider issues separate secrets per mode; a shared one would let a test event pass as live. */
function listClashes(source: NamedSource, earlier: readonly NamedSource[]): string[] {
  const { sourceId, mode, apiKey, names, webhookSecrets } = source;
  const problems: string[] = [];
  if (earlier.some((other) => other.sourceId === sourceId))
    problems.push(
      `There are two sources named ${sourceId}. Use each sourceId once; the DELIVERY_ variables also create the sources live and test.`,
    );
  const twin = earlier.findLast((other) => apiKey !== null && other.apiKey === apiKey);
  if (twin)
    problems.push(`${names.apiKey} is the same key as ${twin.names.apiKey}. Each source needs its own.`);
  const sharer = earlier.find(
    (other) => other.mode !== mode && other.webhookSecrets.some((each) => webhookSecrets.includes(each)),
  );
  if (sharer)
    problems.push(
      `${names.webhookSecrets} shares a secret with ${sharer.names.webhookSecrets}, which belongs to the other mode. Copy each endpoint's own secret.`,
    );
  return problems;
}

function listTokenProblems(sources: readonly NamedSource[], { API_TOKENS, WRITE_THROUGH }: Values): string[] {
  // Without sources the product can only run the demo, which has live and test.
  const known: readonly string[] = sources.length === 0 ? MODES : sources.map(({ sourceId }) => sourceId);
  const tokens = API_TOKENS ?? [];
  const problems = tokens.flatMap(({ token, sourceId }, index) => {
    const name = `API_TOKENS, token ${index + 1},`;
    const isListed = tokens.slice(0, index).some((other) => other.token === token);
    return [
      known.includes(sourceId)
        ? []
        : `${name} is for the source ${sourceId}, which does not exist. Write TOKEN@SOURCE with one of ${known.join(", ")}.`,
      isListed ? `${name} is listed twice. List each token once.` : [],
    ].flat();
  });
  if (WRITE_THROUGH && !tokens.some(({ mayWrite }) => mayWrite)) {
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

/** Why `address` cannot be a provider's base address, worded to follow "NAME …"; undefined if it can. */
export function findAddressProblem(address: string): string | undefined {
  if (!URL.canParse(address)) return "must look like https://api.example.com";
  const url = new URL(address);
  if (url.protocol !== "https:" && url.protocol !== "http:") return "must start with https://";
  if (holdsLogin(url)) return "must not contain a user or password; the key goes in a variable";
  if (url.search !== "" || url.hash !== "") return "must not contain a query or a fragment";
  if (/\/v1\/*$/.test(url.pathname)) return "must not end in /v1, which every request adds; remove it";
  if (isUnprotected(url)) {
    return "must start with https://: over http anybody on the way can read the key (only this machine may use http)";
  }
  return undefined;
}

/** True if the provider at `address` runs on this machine, as the sandbox does. */
export function isOnThisMachine(address: string): boolean {
  return URL.canParse(address) && namesThisMachine(new URL(address).host);
}

/** `address` without trailing slashes, so that paths can be appended. */
export function trimAddress(address: string): string {
  return address.replace(/\/+$/, "");
}
