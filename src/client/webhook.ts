import { OrderMirrorError } from "../domain/errors.ts";
import { tryParseJson } from "../domain/parseJson.ts";
import type { OutgoingType } from "../domain/order/outgoing.ts";
import { loadScheme } from "../signature/scheme.ts";
import { loadVerifier, type SignatureRefusal } from "../signature/verifier.ts";
import type { Change } from "./feed.ts";

/** An outgoing webhook of the mirror. `id` is the same in each repetition. */
export interface WebhookMessage {
  readonly id: string;
  readonly type: OutgoingType | "test";
  readonly timestamp: string;
  readonly source: string;
  /** Empty in a test. */
  readonly data: Change | Record<never, never>;
}

/** The request is not a message of the mirror, or is too old: answer 401. `reason` is for logs only. */
export class WebhookRefusedError extends OrderMirrorError {
  override readonly name = "WebhookRefusedError";
  override readonly retry = "never";
  readonly reason: SignatureRefusal | "body_unreadable";

  constructor(reason: SignatureRefusal | "body_unreadable") {
    super(`the webhook was refused: ${reason}`);
    this.reason = reason;
  }
}

export interface WebhookRequest {
  /** Node's `request.headers`, or those of a fetch Request. */
  readonly headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The body as received: not parsed and written again. */
  readonly body: string | Uint8Array;
  /** `whsec_…`; during a rotation both the new and the old one. */
  readonly secrets: string | readonly string[];
  /** Seconds since 1970; default now. */
  readonly nowSeconds?: number | undefined;
}

/**
 * The message in a request, if one of the secrets signed it within the last five minutes. Throws WebhookRefusedError
 * otherwise, and ConfigurationError for unusable secrets.
 */
export function verifyWebhook(request: WebhookRequest): WebhookMessage {
  const { nowSeconds = Math.floor(Date.now() / 1_000) } = request;
  const secrets = typeof request.secrets === "string" ? [request.secrets] : request.secrets;
  const body = Buffer.from(request.body as Uint8Array);
  const headersDistinct = listHeaders(request.headers);
  const verifier = loadVerifier({ scheme: loadScheme("standard-webhooks"), secrets });
  const verdict = verifier.verify({ headersDistinct, body, nowSeconds });
  if (!verdict.valid) throw new WebhookRefusedError(verdict.reason);
  const value = tryParseJson(body.toString());
  if (typeof value !== "object" || value === null) throw new WebhookRefusedError("body_unreadable");
  return { ...(value as WebhookMessage), id: verdict.id ?? "" };
}

function listHeaders(headers: WebhookRequest["headers"]): NodeJS.Dict<string[]> {
  const entries = headers instanceof Headers ? [...headers] : Object.entries(headers);
  return Object.fromEntries(
    entries.flatMap(([name, value]) =>
      value === undefined ? [] : [[name.toLowerCase(), typeof value === "string" ? [value] : [...value]]],
    ),
  );
}
