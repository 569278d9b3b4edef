import { z } from "zod";
import { formatInstant, type Instant } from "../../../src/domain/order/instant.ts";

/*
 * Bodies as strict as the spec shows them, and requests as it describes them, written from the spec and not from
 * `src/wire` or `src/provider`, so that a misreading there fails the contract suite instead of being shared by it.
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

const branchPage = z.looseObject({
  data: z.array(
    z.looseObject({
      id: z.string(),
      reference: z.string().nullable(),
      name: z.string(),
      address,
      routesTo: z.looseObject({ fleet: named, zone: coded }).nullable(),
      connectedZones: z.array(coded.extend({ isPrimary: z.boolean() })),
    }),
  ),
  hasMore: z.boolean(),
  ...requested,
});
export type ShownOrder = z.infer<typeof order>;

/** Filters of GET /v1/orders. */
export type ListOrdersQuery = Readonly<Record<string, Instant | string | number>>;

/** An answer with the refusal's code, wherever the body has it; undefined for a success. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Record<string, unknown>;
  readonly code: string | undefined;
}

/** `path` with query; `body` as JSON. */
export type Ask = (method: string, path: string, body?: unknown) => Promise<RawAnswer>;

/** Makes every endpoint of the spec. Each rejects with status and code of a refusal, and with a ZodError of a deviation. */
export function makeContractClient(ask: Ask) {
  const call = async <Schema extends z.ZodType>(
    schema: Schema,
    ...[method, path, sent]: Parameters<Ask>
  ): Promise<z.infer<Schema>> => {
    const { status, code, body } = await ask(method, path, sent);
    if (status < 300) return schema.parse(body);
    throw Object.assign(new Error(`${method} ${path}: ${status} ${code}`), { status, code });
  };
  const orders = (name: string) => `/v1/orders/${encodeURIComponent(name)}`;
  return {
    createOrder: (body: object) => call(orderAnswer, "POST", "/v1/orders", body),
    getOrder: (name: string) => call(orderAnswer, "GET", orders(name)),
    updateOrder: (name: string, body: object) => call(orderAnswer, "PATCH", orders(name), body),
    cancelOrder: (name: string) => call(orderAnswer, "POST", `${orders(name)}/cancel`),
    advanceTestOrder: (name: string) =>
      call(orderAnswer, "POST", `/v1/test/orders/${encodeURIComponent(name)}/advance`),
    quoteOrder: (body: object) => call(quote, "POST", "/v1/orders/quote", body),
    validateAddress: (body: object) => call(addressCheck, "POST", "/v1/addresses/validate", body),
    listBranches: () => call(branchPage, "GET", "/v1/branches"),
    listOrders: (filters: ListOrdersQuery = {}) => {
      const query = new URLSearchParams();
      for (const [name, value] of Object.entries(filters))
        query.set(name, typeof value === "bigint" ? formatInstant(value) : String(value));
      return call(orderPage, "GET", `/v1/orders?${query.toString()}`);
    },
  };
}
