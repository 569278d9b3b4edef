import { z } from "zod";
import { formatInstant, type Instant } from "../../../src/domain/order/instant.ts";
import { readOrderResponse, readPage } from "../../../src/wire/order.ts";
import type { addressSchema, createOrderSchema, updateOrderSchema } from "../../../src/wire/api.ts";
import { makeProviderClient, type ProviderClientDeps } from "../../../src/provider/client.ts";
import type { ProviderAnswer, ProviderRequest } from "../../../src/provider/exchange.ts";
import { makeProviderClock } from "../../../src/provider/providerClock.ts";
import { makeRetrying, makeTransport, type RequestOptions } from "../../../src/provider/transport.ts";

/** The bodies that the suite sends, with the fields that the product knows. */
export type WireAddress = z.infer<typeof addressSchema>;
export type CreateOrderRequest = z.infer<typeof createOrderSchema>;
type UpdateOrderRequest = z.infer<typeof updateOrderSchema>;

/*
 * Bodies as strict as the spec shows them, written from the spec and not from `src/wire`, so that a misreading there
 * fails the contract suite instead of being shared by it.
 */
const named = z.looseObject({ name: z.string() });
const coded = z.looseObject({ code: z.string(), name: z.string() });
const time = z.iso.datetime({ offset: true });
const address = z.looseObject({ street: z.string(), city: z.string(), postcode: z.string() });
const schedule = z.looseObject({
  mode: z.string(),
  resolved: z.looseObject({ pickupTime: time, deliveryTime: time, basis: z.string() }),
});
const order = z.looseObject({
  reference: z.string().min(1),
  status: z.string().min(1),
  livemode: z.boolean(),
  fleet: named,
  schedule,
  externalOrderId: z.string().nullish(),
  pickupTime: time,
  deliveryTime: time,
  realPickupTime: time.nullish(),
  realDeliveryTime: time.nullish(),
  updatedAt: time,
});
const requested = { request_id: z.string().min(1) };
const orderAnswer = order.extend(requested);
const orderPage = z.looseObject({
  data: z.array(order),
  hasMore: z.boolean(),
  limit: z.int(),
  offset: z.int(),
  ...requested,
});
const branch = z.looseObject({
  id: z.string(),
  reference: z.string().nullable(),
  name: z.string(),
  address,
  routesTo: z.looseObject({ fleet: named, zone: coded }).nullable(),
  connectedZones: z.array(coded.extend({ isPrimary: z.boolean() })),
});
const quote = z.looseObject({ fleet: named, zone: coded, distance: z.number(), schedule, ...requested });
const addressCheck = z.discriminatedUnion("valid", [
  z.looseObject({
    valid: z.literal(true),
    coordinates: z.looseObject({ latitude: z.number(), longitude: z.number() }),
    normalized: address,
    ...requested,
  }),
  z.looseObject({
    valid: z.literal(false),
    reason: z.enum(["address_not_found", "address_ambiguous", "address_low_confidence"]),
    message: z.string(),
    ...requested,
  }),
]);

/** Filters of GET /v1/orders. */
export type ListOrdersQuery = Partial<
  Record<
    `${"updated" | "pickup" | "delivery"}Until` | "updatedSince" | "pickupFrom" | "deliveryFrom",
    Instant
  > &
    Record<"status" | "branch", string> &
    Record<"limit" | "offset", number>
> & { readonly sort?: "updatedAt" | "pickupTime" };

export type ContractClient = ReturnType<typeof makeContractClient>;

/** A client with every endpoint of the spec. Writes are sent once, and again only after a short 429. */
export function makeContractClient(deps: ProviderClientDeps) {
  const providerClock = makeProviderClock(deps.clock);
  const send = makeRetrying({ send: makeTransport({ ...deps, providerClock }), clock: deps.clock });
  /** Value of Service-Subscription-State: `past_due`, or null in all other states (spec, "Limits"). */
  const stateOf = ({ headers }: ProviderAnswer) => headers.get("service-subscription-state");
  const ask = async (request: ProviderRequest, options: RequestOptions = {}) => {
    const answer = await send(request, options);
    const { requestedAt, requestId, text, value } = answer;
    return {
      snapshot: readOrderResponse(text),
      requestedAt,
      requestId,
      subscriptionState: stateOf(answer),
      /** Throws a ZodError where the order deviates from the spec. */
      readOrder: () => orderAnswer.parse(value),
    };
  };
  const bytesOf = (body: object) => new TextEncoder().encode(JSON.stringify(body));
  const read = { method: "GET", safe: true } as const;
  const write = { method: "POST", policy: "sustained", safe: false } as const;
  const geocode = { method: "POST", policy: "geocoding", safe: true } as const;
  const client = makeProviderClient(deps);
  return {
    ...client,
    providerClock,
    async listBranches() {
      const page = await client.listBranches();
      return { ...page, data: z.array(branch).parse(page.data) };
    },
    createOrder: (body: CreateOrderRequest) =>
      ask({ ...write, route: "/v1/orders", policy: "geocoding", bytes: bytesOf(body) }),
    cancelOrder: (reference: string, options?: RequestOptions) =>
      ask({ ...write, route: "/v1/orders/{reference}/cancel", reference }, options),
    updateOrder: (reference: string, body: UpdateOrderRequest) =>
      ask({ ...write, method: "PATCH", route: "/v1/orders/{reference}", reference, bytes: bytesOf(body) }),
    advanceTestOrder: (reference: string) =>
      ask({ ...write, route: "/v1/test/orders/{reference}/advance", reference }),
    getOrder: (reference: string, options?: RequestOptions) =>
      ask({ ...read, route: "/v1/orders/{reference}", policy: "sustained", reference }, options),
    async listOrders(filters: ListOrdersQuery, options: RequestOptions = {}) {
      const query = new URLSearchParams();
      for (const [name, value] of Object.entries(filters))
        if (value !== undefined)
          query.set(name, typeof value === "bigint" ? formatInstant(value) : String(value));
      const answer = await send({ ...read, route: "/v1/orders", policy: "order-list", query }, options);
      const { requestedAt, requestId, value } = answer;
      return { ...readPage(answer), requestedAt, requestId, readOrders: () => orderPage.parse(value) };
    },
    async quoteOrder(body: CreateOrderRequest) {
      const answer = await send({ ...geocode, route: "/v1/orders/quote", bytes: bytesOf(body) }, {});
      return { ...quote.parse(answer.value), subscriptionState: stateOf(answer) };
    },
    async validateAddress(body: WireAddress) {
      const answer = await send({ ...geocode, route: "/v1/addresses/validate", bytes: bytesOf(body) }, {});
      return addressCheck.parse(answer.value);
    },
  };
}
