import { systemClock } from "../runtime/lifecycle/clock.ts";
import { makeBudget } from "./rate/budget.ts";
import { makeProviderClient } from "./client.ts";
import type { ProviderClient } from "./client.ts";
import { NO_LIMITS, SPEC_LIMITS } from "./rate/policies.ts";

// The package's entry point: it exports a name for every type that its functions accept or return.
export type { Instant } from "../domain/order/instant.ts";
export type { Snapshot } from "../domain/order/order.ts";
export type { OrderFields } from "../domain/order/orderColumns.ts";
export type {
  CreateOrderRequest,
  ListBranchesResponse,
  ListOrdersResponse,
  QuoteResponse,
  UpdateOrderRequest,
  ValidateAddressResponse,
  WireAddress,
} from "../wire/api.ts";
export type { WireOrder } from "../wire/order.ts";
export type { BranchesPage, ListOrdersQuery, OrdersPage, ProviderClient, QuoteAnswer } from "./client.ts";
export type { RequestOptions } from "./http/request.ts";
export type { OrderAnswer } from "./orderAnswer.ts";

export interface ClientOptions {
  /** Of the provider or of a mirror. */
  readonly baseUrl: string;
  /** The provider's key, or a mirror's token. */
  readonly apiKey: string;
  /** Default true: the rates of the spec. False for a mirror, whose reads have no limits. */
  readonly paced?: boolean;
  /** Per request, in milliseconds, excluding the wait for its turn; default 15,000. */
  readonly deadlineMs?: number;
}

/** A client's errors say everything; the log, with its package, is for processes. */
const logger = { debug: () => undefined };

/**
 * The typed client of the provider's API, for programs that use this package. Make one per organization and mode: it
 * counts the requests.
 *
 * Instants are nanoseconds since 1970 as bigint (`order-mirror/instant` parses and formats them); errors are the
 * classes of `order-mirror/errors`. Throws ConfigurationError for an address or key that cannot be used in a request.
 */
export function createClient({ paced = true, ...options }: ClientOptions): ProviderClient {
  const budget = makeBudget({ clock: systemClock, limits: paced ? SPEC_LIMITS : NO_LIMITS });
  return makeProviderClient({ ...options, budget, clock: systemClock, logger });
}
