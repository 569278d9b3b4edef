import { trimAddress } from "./providerAddress.ts";
import type { Values } from "./variables.ts";

export type Mode = "live" | "test";
export const MODES: readonly Mode[] = ["live", "test"];

/** One organization in one mode at the provider. */
export interface SourceConfig {
  readonly sourceId: string;
  readonly mode: Mode;
  /** Sources with the same organization and mode share the provider's rate limits. */
  readonly organization: string;
  /** Without a slash at its end. */
  readonly baseUrl: string;
  readonly apiKey: string;
  /** All valid; none: this source is polled only. */
  readonly webhookSecrets: readonly string[];
  /** Name of a preset, or the JSON of a scheme. */
  readonly webhookScheme: string;
}

/** A source, and what its parts are called where they were written. */
export interface NamedSource extends SourceConfig {
  readonly names: Readonly<Record<"baseUrl" | "apiKey" | "webhookSecrets" | "webhookScheme", string>>;
}

const DEFAULT_ORGANIZATION = "default";

/** The sources `live` and `test` of the DELIVERY_ variables: one exists when its key is set. */
export function readVariableSources(values: Values, problems: string[]): NamedSource[] {
  return MODES.flatMap((mode) => {
    const prefix = mode === "live" ? "DELIVERY_LIVE" : "DELIVERY_TEST";
    const apiKey = values[`${prefix}_API_KEY`];
    const webhookSecrets = values[`${prefix}_WEBHOOK_SECRETS`] ?? [];
    if (apiKey === null) {
      if (webhookSecrets.length > 0) {
        problems.push(`${prefix}_WEBHOOK_SECRETS is set without ${prefix}_API_KEY. Set both or none.`);
      }
      return [];
    }
    if (values.DELIVERY_BASE_URL === null) {
      problems.push(
        `${prefix}_API_KEY is set without DELIVERY_BASE_URL. Set it to the provider's base address.`,
      );
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
        apiKey: `${prefix}_API_KEY`,
        webhookSecrets: `${prefix}_WEBHOOK_SECRETS`,
        webhookScheme: "WEBHOOK_SCHEME",
      },
    };
  });
}
