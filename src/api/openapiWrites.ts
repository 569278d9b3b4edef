import type { ApiEndpoint } from "./openapiEndpoints.ts";
import { NO_ORDER, READ_REFUSALS, refusal } from "./openapiRefusals.ts";

const THROUGH = "Forwarded to the provider, with WRITE_THROUGH and for tokens with write access.";
const WRITE_REFUSALS = {
  400: refusal("The address or the body cannot be read: invalid_request."),
  401: READ_REFUSALS[401],
  402: refusal("The subscription is inactive: subscription_inactive."),
  403: refusal(
    "The token has no write access: write_not_allowed; or the plan lacks the feature: feature_not_available.",
  ),
  405: refusal("Writes are not forwarded here: method_not_allowed."),
  413: refusal("The body is too large: payload_too_large."),
  415: refusal("The content encoding of the body is not supported: invalid_request."),
  422: refusal("The provider refuses it; its code says why."),
  429: refusal(
    "A rate limit of the provider is exceeded: rate_limit_exceeded; or too many wrong tokens came from this address: too_many_attempts. Retry-After says when to retry.",
  ),
  500: READ_REFUSALS[500],
  502: refusal(
    "The provider gave no usable answer: provider_unavailable; or the mirror's key is refused, or not the source's own: source_key_refused.",
  ),
  504: refusal(
    "The provider did not answer in time: provider_timeout. Whether the write happened is unknown.",
  ),
  default: refusal("Any other refusal of the provider, unchanged."),
};
const MIRRORED = "The order is already in the mirror; X-Mirrored: later means that it is not there yet.";

function write(
  [id, path]: readonly [id: string, path: string],
  summary: string,
  rest: Pick<ApiEndpoint, "answers"> & Partial<ApiEndpoint>,
): ApiEndpoint {
  const { answers, ...more } = rest;
  return {
    id,
    method: "post",
    path,
    tag: "Writes",
    summary,
    description: THROUGH,
    ...more,
    answers: { ...answers, ...WRITE_REFUSALS },
  };
}

const changed = {
  200: { description: `The order. ${MIRRORED}`, schema: "OrderAnswer" },
  404: NO_ORDER,
} as const;

/** The provider's writes. */
export const WRITES: readonly ApiEndpoint[] = [
  write(["createOrder", "/v1/orders"], "Create an order", {
    description: `${THROUGH} With an externalOrderId it is sent again after a timeout, once it is certain that it was not created.`,
    body: "NewOrder",
    answers: {
      201: { description: `The order. ${MIRRORED}`, schema: "OrderAnswer" },
      409: refusal("The externalOrderId is already in use: duplicate_external_order_id."),
    },
  }),
  write(["quoteOrder", "/v1/orders/quote"], "Preview an order", {
    body: "NewOrder",
    answers: { 200: { description: "What a creation would return.", schema: "Quote" } },
  }),
  write(["updateOrder", "/v1/orders/{reference}"], "Change an order", {
    method: "patch",
    description: `${THROUGH} Method and path are assumed, because the provider does not document them; other writes are forwarded as well.`,
    body: "OrderChange",
    answers: changed,
  }),
  write(["cancelOrder", "/v1/orders/{reference}/cancel"], "Cancel an order", { answers: changed }),
  write(["advanceTestOrder", "/v1/test/orders/{reference}/advance"], "Advance a test order", {
    answers: changed,
  }),
  write(["validateAddress", "/v1/addresses/validate"], "Check an address", {
    body: "Address",
    answers: { 200: { description: "Whether it is valid, and if not, why.", schema: "AddressCheck" } },
  }),
];
