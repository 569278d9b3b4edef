import type { ApiAnswer } from "./openapiEndpoints.ts";

export const refusal = (description: string): ApiAnswer => ({ description, schema: "Refusal" });

export const READ_REFUSALS = {
  401: refusal("The token is missing or unknown: invalid_api_key."),
  422: refusal("A parameter is invalid: invalid_request; or X-Source names another source: unknown_source."),
  429: refusal(
    "Too many wrong tokens came from this address: too_many_attempts; or this token has too many exports under way: too_many_exports. Both with Retry-After.",
  ),
  500: refusal("A mistake of the mirror: internal_error."),
  503: refusal("The mirror cannot be read at the moment; Retry-After says when to retry."),
};
export const NO_ORDER = refusal("No such order: order_not_found.");
