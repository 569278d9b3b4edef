import { CONTRACT_ENDPOINTS } from "../wire/endpoints.ts";
import type { EndpointName } from "../wire/endpoints.ts";
import { listParametersSchema } from "../wire/listParameters.ts";
import { describeDocument, SCHEMAS } from "./openapi.ts";
import { endpoint, refusal } from "./openapiEndpoints.ts";
import type { ApiAnswer, ApiEndpoint } from "./openapiEndpoints.ts";
import { listOrdersResponseSchema } from "../wire/api.ts";

const INTRODUCTION =
  "The provider's interface as the sandbox answers it. Every response has RateLimit-Policy and RateLimit, and request_id at the top level. What the provider's specification leaves open is assumed here: see docs/assumptions.md.";

const REFUSALS = {
  401: refusal("The key is missing or unknown: invalid_api_key."),
  403: refusal("The plan lacks the feature: feature_not_available."),
  429: refusal("A rate policy is exceeded: rate_limit_exceeded, with Retry-After in seconds."),
};
const BODY_REFUSALS = {
  400: refusal("The body is not JSON: invalid_json."),
  413: refusal("The body is too large: payload_too_large."),
};
const NO_ORDER = {
  404: refusal("Unknown, of the other mode, or of another organization: order_not_found."),
};
const ORDER: ApiAnswer = { description: "The order.", schema: "OrderAnswer" };
const UNROUTABLE =
  "invalid_request, branch_not_found, branch_closed, branch_not_connected, branch_not_located, zone_not_connected, address_not_found, address_ambiguous, address_low_confidence or no_shift_coverage.";

const SALE_REFUSALS = {
  ...BODY_REFUSALS,
  402: refusal("The subscription is unpaid or canceled: subscription_inactive."),
  422: refusal(UNROUTABLE),
};

type Details = Pick<ApiEndpoint, "summary" | "answers"> & Partial<ApiEndpoint>;

const DETAILS: Readonly<Record<EndpointName, Details>> = {
  createOrder: {
    summary: "Create an order",
    body: "NewOrder",
    answers: {
      201: ORDER,
      ...SALE_REFUSALS,
      409: refusal("The externalOrderId is already used: duplicate_external_order_id."),
    },
  },
  quoteOrder: {
    summary: "Preview an order",
    body: "NewOrder",
    answers: { 200: { description: "What a creation would give.", schema: "Quote" }, ...SALE_REFUSALS },
  },
  listOrders: {
    summary: "List orders",
    query: listParametersSchema,
    answers: {
      200: { description: "A page of orders.", schema: "OrderPage" },
      422: refusal("invalid_request, updated_period_incomplete or branch_not_found."),
    },
  },
  getOrder: { summary: "Read one order", answers: { 200: ORDER, ...NO_ORDER } },
  updateOrder: {
    summary: "Change an order",
    description: "Assumed: the specification shows neither method, path nor payload.",
    body: "OrderChange",
    answers: {
      200: ORDER,
      ...NO_ORDER,
      ...BODY_REFUSALS,
      422: refusal(`order_not_changeable, ${UNROUTABLE}`),
    },
  },
  cancelOrder: {
    summary: "Cancel an order",
    answers: { 200: ORDER, ...NO_ORDER, 422: refusal("order_not_cancellable.") },
  },
  advanceOrder: {
    summary: "Advance a test order",
    answers: { 200: ORDER, ...NO_ORDER, 422: refusal("order_not_advanceable.") },
  },
  validateAddress: {
    summary: "Check an address",
    body: "Address",
    answers: {
      200: { description: "Whether it is valid, and if not, why.", schema: "AddressCheck" },
      ...BODY_REFUSALS,
      422: refusal("A text is missing: invalid_request."),
    },
  },
  listBranches: {
    summary: "List branches",
    answers: { 200: { description: "The open branches, in one page.", schema: "BranchPage" } },
  },
};

/** The OpenAPI 3.1 document of the provider, as the sandbox answers. */
export function describeProvider() {
  const endpoints = CONTRACT_ENDPOINTS.map(({ name, method, path }): ApiEndpoint => {
    const { answers, ...details } = DETAILS[name];
    return {
      id: name,
      method: method.toLowerCase() as ApiEndpoint["method"],
      path: path.replace(":reference", "{reference}"),
      tag: "Provider",
      ...details,
      answers: { ...answers, ...REFUSALS },
    };
  });
  const event = endpoint(["receiveEvent", "post", "event"], "Events", "An order has reached a status", {
    body: "Event",
    open: true,
    answers: { 200: { description: "Received; any other answer is followed by another attempt." } },
  });
  const { OrderAnswer, BranchPage, NewOrder, OrderChange, Quote, Address, AddressCheck, Event, Refusal } =
    SCHEMAS;
  return describeDocument({
    title: "Delivery ordering service (sandbox)",
    description: INTRODUCTION,
    token: "An API key. Its prefix decides between test and live mode.",
    tags: { Provider: "Orders, addresses and branches.", Events: "Webhooks of the Advanced plan." },
    endpoints,
    webhooks: [event],
    schemas: {
      OrderAnswer,
      BranchPage,
      NewOrder,
      OrderChange,
      Quote,
      Address,
      AddressCheck,
      Event,
      Refusal,
      OrderPage: listOrdersResponseSchema,
    },
  });
}
