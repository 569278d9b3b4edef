import type { Mode } from "../../domain/source/orderSource.ts";
import { ConfigurationError } from "../../domain/errors.ts";
import { loadScheme } from "../../signature/scheme.ts";
import { makeSigner } from "../../signature/sign.ts";
import { putEndpoint, readEndpoints } from "./event.sql.ts";
import type { WebhookEndpoint } from "./event.sql.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import { refused } from "../api/errors.ts";
import { refuseParameter } from "../../wire/refusal.ts";

/** Assumed: the spec says that events are signed, not how; any scheme can be set. */
const DEFAULT_SCHEME = "standard-webhooks";

export interface WebhookRequest {
  readonly organizationId: string;
  readonly mode: Mode;
  readonly url: string;
  readonly secret: string;
  /** Name of a preset or JSON of a scheme. */
  readonly scheme?: string | undefined;
  /** Several endpoints of one mode have different names; default `main`. */
  readonly name?: string | undefined;
}

/**
 * Adds or replaces a webhook endpoint, as the dashboard would. Throws ConfigurationError for an unusable address,
 * scheme or secret, and feature_not_available on a plan without webhooks (spec, "Events").
 */
export async function setWebhook(state: SandboxState, request: WebhookRequest): Promise<WebhookEndpoint> {
  const { organizationId, mode, url, secret, scheme = DEFAULT_SCHEME, name = "main" } = request;
  if (state.directory.getOrganization(organizationId).plan !== "advanced") {
    throw refused(403, "feature_not_available", "The plan has no webhooks.");
  }
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new ConfigurationError("A webhook's address must be an http or https URL.");
  }
  makeSigner({ scheme: loadScheme(scheme), secret, url });
  const others = await readEndpoints(state.pool);
  // A test event must never reach a live receiver (spec, "Events").
  const isShared = others.some(
    (other) =>
      other.organizationId === organizationId &&
      other.livemode !== (mode === "live") &&
      (other.url === url || other.secret === secret),
  );
  if (isShared) throw refuseParameter("An endpoint of the other mode has this address or this secret.");
  const endpoint: WebhookEndpoint = {
    endpointId: `${organizationId}-${mode}-${name}`,
    organizationId,
    livemode: mode === "live",
    url,
    secret,
    scheme,
  };
  await state.write((connection) => putEndpoint(connection, endpoint));
  return endpoint;
}
