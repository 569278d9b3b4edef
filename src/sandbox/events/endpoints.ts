import type { ApiAnswer, ApiRequest, Endpoint } from "../api/apiRequest.ts";
import { createOrder, quoteOrder, validateAddress } from "../api/createOrder.ts";
import { listBranches, listOrders } from "../api/listOrders.ts";
import { CONTRACT_ENDPOINTS } from "../../wire/endpoints.ts";
import type { EndpointName } from "../../wire/endpoints.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import { advanceOrder, cancelOrder, getOrder, updateOrder } from "../api/singleOrders.ts";

type Answerer = (state: SandboxState, request: ApiRequest) => Promise<ApiAnswer>;
type Rules = Partial<Pick<Endpoint, "policies" | "sells" | "readsBody">>;

const GEOCODES: Rules = { policies: ["sustained", "geocoding"], readsBody: true };
const ANSWERS: Readonly<Record<EndpointName, readonly [Answerer, Rules?]>> = {
  createOrder: [createOrder, { ...GEOCODES, sells: true }],
  quoteOrder: [quoteOrder, { ...GEOCODES, sells: true }],
  listOrders: [listOrders, { policies: ["sustained", "order-list"] }],
  getOrder: [getOrder],
  updateOrder: [updateOrder, { readsBody: true }],
  cancelOrder: [cancelOrder],
  advanceOrder: [advanceOrder],
  validateAddress: [validateAddress, GEOCODES],
  listBranches: [listBranches],
};

/** Every endpoint of the spec with its rate policies. Assumed: /v1 is the only version. */
export function makeEndpoints(state: SandboxState): readonly Endpoint[] {
  return CONTRACT_ENDPOINTS.map((endpoint) => {
    const [answer, rules] = ANSWERS[endpoint.name];
    return {
      ...endpoint,
      policies: ["sustained"],
      sells: false,
      readsBody: false,
      ...rules,
      answer: (request) => answer(state, request),
    };
  });
}
