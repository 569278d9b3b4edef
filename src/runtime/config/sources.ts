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
  /** Without a slash at its end. */
  readonly baseUrl: string;
  /** What identifies the provider where its address does not, as that of the demo's sandbox may change. */
  readonly provider?: string;
  /** Null where this process needs none: see requireSources. */
  readonly apiKey: string | null;
  /** All valid; none: this source is polled only. */
  readonly webhookSecrets: readonly string[];
  /** Name of a preset, or the JSON of a scheme. */
  readonly webhookScheme: string;
}

/** A source, and what its parts are called where they were written. */
export interface NamedSource extends SourceConfig {
  readonly names: Readonly<Record<"baseUrl" | "apiKey" | "webhookSecrets" | "webhookScheme", string>>;
}

/** The address that the provider has for a source's events; undefined where no public address is configured. */
export function webhookUrl(publicUrls: readonly string[], sourceId: string): string | undefined {
  const [base] = publicUrls;
  return base === undefined ? undefined : `${trimAddress(base)}/webhooks/${sourceId}`;
}

const DEFAULT_ORGANIZATION = "default";

/** The key of a source that requireSources has looked at. */
export function keyOf({ sourceId, apiKey }: SourceConfig): string {
  if (apiKey === null) throw new TypeError(`the source ${sourceId} has no key`);
  return apiKey;
}

/** The variable whose presence makes the source of that mode. */
export function keyVariable(mode: Mode): "DELIVERY_LIVE_API_KEY" | "DELIVERY_TEST_API_KEY" {
  return mode === "live" ? "DELIVERY_LIVE_API_KEY" : "DELIVERY_TEST_API_KEY";
}

/** The variable of the secrets, whose presence makes a source as well: it then is for receiving and reading. */
export function secretsVariable(
  mode: Mode,
): "DELIVERY_LIVE_WEBHOOK_SECRETS" | "DELIVERY_TEST_WEBHOOK_SECRETS" {
  return mode === "live" ? "DELIVERY_LIVE_WEBHOOK_SECRETS" : "DELIVERY_TEST_WEBHOOK_SECRETS";
}

/** The sources `live` and `test` of the DELIVERY_ variables: one exists when its key or its secrets are set. */
export function readVariableSources(values: Values, problems: string[]): NamedSource[] {
  return MODES.flatMap((mode) => {
    const keyName = keyVariable(mode);
    const secretsName = secretsVariable(mode);
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
