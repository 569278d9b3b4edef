import { findAddressProblem, isOnThisMachine } from "./providerAddress.ts";
import { webhookUrl } from "./sources.ts";
import type { NamedSource } from "./sources.ts";
import type { Mode } from "../../domain/source/orderSource.ts";
import type { Values } from "./variables.ts";

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
    ...listTwins(sources),
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

function listTwins(sources: readonly NamedSource[]): string[] {
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
