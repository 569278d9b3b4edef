import { z } from "zod";
import type { Mode } from "../domain/source/orderSource.ts";
import { checkScheme, isForeignSecret } from "../signature/verifier.ts";
import { namesThisMachine } from "../process/loopback.ts";
import { listName, parseElement, parseList, type Listed } from "./lists.ts";
import { providerAddress, trimAddress } from "./kinds.ts";
import { SETTINGS, type Values } from "./settings.ts";

export const MODES: readonly Mode[] = ["live", "test"];

/** A source: one organization in one mode at the provider. */
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

/** True if the provider at `address` runs on this machine, as the sandbox does. */
export function isOnThisMachine(address: string): boolean {
  return URL.canParse(address) && namesThisMachine(new URL(address).host);
}

/**
 * The settings that create the source of a mode: its key, and its webhook secrets, which alone create it for receiving.
 */
const OF_MODE = {
  live: { key: "deliveryLiveApiKey", secrets: "deliveryLiveWebhookSecrets" },
  test: { key: "deliveryTestApiKey", secrets: "deliveryTestWebhookSecrets" },
} as const;

/** The variable of a mode's key. */
export function keyVariable(mode: Mode): string {
  return SETTINGS[OF_MODE[mode].key].variable;
}

/** The sources of the DELIVERY_ variables and of a list, without those that have a problem. */
export function readSources(listed: Listed, values: Values, problems: string[]): SourceConfig[] {
  const schema = makeSourceSchema(values);
  const own = MODES.flatMap((mode) => {
    const { key, secrets } = OF_MODE[mode];
    const names: Readonly<Record<string, string>> = {
      baseUrl: SETTINGS.deliveryBaseUrl.variable,
      apiKey: SETTINGS[key].variable,
      webhookSecrets: SETTINGS[secrets].variable,
      webhookScheme: SETTINGS.webhookScheme.variable,
    };
    const [apiKey, webhookSecrets] = [values[key], values[secrets]];
    if (apiKey === null && webhookSecrets.length === 0) return [];
    const source = { sourceId: mode, mode, apiKey, webhookSecrets };
    return parseElement(source, { schema, nameOf: (field) => names[field] ?? field, problems });
  });
  const sources = [...own, ...parseList(listed, schema, problems)];
  for (const [index, source] of sources.entries())
    for (const other of sources.slice(0, index))
      problems.push(...listClashes(other, source, { hasOwn: own.length > 0 }));
  return sources;
}

const secret = z.string().trim().min(1);
/** The spec, "Authentication": a key is `<prefix>_test_…` or `<prefix>_live_…`. */
const KEY_MODE = /^\S+?_(live|test)_\S+$/;

/** A source as a list has it; what it lacks comes from the variables. */
function makeSourceSchema({ deliveryBaseUrl, webhookScheme: defaultScheme, publicUrls }: Values) {
  return z
    .strictObject({
      sourceId: listName,
      mode: z.enum(MODES),
      organization: z.string().min(1).max(64).default("default"),
      // An address that is missing must not hide the other problems of the source.
      baseUrl: providerAddress.prefault(deliveryBaseUrl ?? ""),
      apiKey: secret.nullable().default(null),
      webhookSecrets: z.array(secret).default([]),
      webhookScheme: z
        .union([
          z.string().min(1),
          z.record(z.string(), z.unknown()).transform((fields) => JSON.stringify(fields)),
        ])
        .default(defaultScheme),
    })
    .superRefine(({ sourceId, mode, apiKey, webhookSecrets, webhookScheme }, context) => {
      const report = (field: string, message: string) =>
        context.addIssue({ code: "custom", path: [field], message });
      const keyMode = KEY_MODE.exec(apiKey ?? "")?.[1];
      if (apiKey !== null && keyMode === undefined)
        report(
          "apiKey",
          `is not a provider key: keys are one word with _${mode}_ after the prefix. Copy it again.`,
        );
      else if (apiKey !== null && keyMode !== mode)
        report(
          "apiKey",
          `belongs to ${mode} mode but holds a ${keyMode} key. Replace it with a ${mode} key.`,
        );
      const schemeProblems = checkScheme(webhookScheme, []);
      for (const problem of schemeProblems) report("webhookScheme", `is wrong: ${problem}`);
      if (schemeProblems.length > 0 || webhookSecrets.length === 0) return;
      // The process starts and refuses events: from those, the scheme can be found.
      if (isForeignSecret(webhookScheme, webhookSecrets)) return;
      for (const problem of checkScheme(webhookScheme, webhookSecrets, webhookUrl(publicUrls, sourceId)))
        report("webhookSecrets", `is wrong: ${problem}`);
    });
}

/** The provider issues separate secrets per mode; a shared one would let a test event pass as live. */
function listClashes(one: SourceConfig, other: SourceConfig, { hasOwn }: { hasOwn: boolean }): string[] {
  const secretVariables = MODES.map((mode) => SETTINGS[OF_MODE[mode].secrets].variable).join(" and ");
  const names = `The sources ${one.sourceId} and ${other.sourceId}`;
  const sharesSecret = one.webhookSecrets.some((each) => other.webhookSecrets.includes(each));
  return [
    one.sourceId === other.sourceId
      ? `There are two sources named ${one.sourceId}. Use each sourceId once${hasOwn ? "; the DELIVERY_ variables also create the sources live and test" : ""}.`
      : "",
    one.apiKey !== null && one.apiKey === other.apiKey
      ? `${names} have the same key. Each needs its own.`
      : "",
    one.mode !== other.mode && sharesSecret
      ? `${names} share a webhook secret, but have different modes. Copy each endpoint's own${hasOwn ? ` into ${secretVariables}, or webhookSecrets of the list` : ""}.`
      : "",
  ].filter((problem) => problem !== "");
}
