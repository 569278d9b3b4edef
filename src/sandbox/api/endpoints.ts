import type { ApiAnswer, ApiRequest } from "./apiRequest.ts";
import { createOrder, quoteOrder, validateAddress } from "./createOrder.ts";
import { listBranches, listOrders } from "./listOrders.ts";
import { CONTRACT_ENDPOINTS } from "../../wire/endpoints.ts";
import type { EndpointName } from "../../wire/endpoints.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import type { Policy } from "./rateLimits.ts";
import { advanceOrder, cancelOrder, getOrder, updateOrder } from "./singleOrders.ts";

type Answerer = (state: SandboxState, request: ApiRequest) => Promise<ApiAnswer>;

interface Rules {
  readonly policies: readonly Policy[];
  /** Whether it creates orders or previews them: it needs a paid subscription, and warns while that is past due. */
  readonly sells: boolean;
  /** Other endpoints ignore the body. */
  readonly readsBody: boolean;
}

const PLAIN: Rules = { policies: ["sustained"], sells: false, readsBody: false };
const GEOCODES: Partial<Rules> = { policies: ["sustained", "geocoding"], readsBody: true };
const ANSWERS: Readonly<Record<EndpointName, readonly [Answerer, Partial<Rules>?]>> = {
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

export type Endpoint = ReturnType<typeof makeEndpoints>[number];

/** Every endpoint of the spec with its rate policies. Assumed: /v1 is the only version. */
export function makeEndpoints(state: SandboxState) {
  return CONTRACT_ENDPOINTS.map((endpoint) => {
    const [answer, rules] = ANSWERS[endpoint.name];
    return { ...endpoint, ...PLAIN, ...rules, answer: (request: ApiRequest) => answer(state, request) };
  });
}
