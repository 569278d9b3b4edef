import type { Mode } from "../../domain/source/orderSource.ts";
import { trimAddress } from "./providerAddress.ts";
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
