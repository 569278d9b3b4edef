import { OUTGOING_TYPES, type OutgoingType } from "../domain/order/outgoing.ts";
import type { z } from "zod";
import { feedParametersSchema } from "../changes/changeRoutes.ts";
import { completeSchema } from "../orders/freshness.ts";
import type { SchemaName } from "./openapi.ts";
import { filterSchema, pageSchema } from "../orders/orderQuery.ts";
import { waitSchema } from "../orders/orderRoutes.ts";

/** One answer; without a schema its body is text of the given type, and without a type there is no body. */
export interface ApiAnswer {
  readonly description: string;
  readonly schema?: SchemaName;
  readonly type?: string;
  /** One of the events that the text consists of. */
  readonly events?: SchemaName;
}

type Tag = "Orders" | "Changes" | "Exports" | "Writes" | "Webhooks";

export interface ApiEndpoint {
  /** The name of the operation in generated clients. */
  readonly id: string;
  readonly method: "get" | "post" | "patch";
  readonly path: string;
  readonly tag: Tag;
  readonly summary: string;
  readonly description?: string;
  readonly query?: z.ZodObject;
  /** Name to meaning. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: SchemaName;
  readonly answers: Readonly<Record<number | string, ApiAnswer>>;
  /** Needs no token. */
  readonly open?: boolean;
}

/** An endpoint, by its id, method and path. */
function endpoint(
  [id, method, path]: readonly [id: string, method: ApiEndpoint["method"], path: string],
  tag: Tag,
  summary: string,
  rest: Omit<ApiEndpoint, "id" | "method" | "path" | "tag" | "summary">,
): ApiEndpoint {
  return { id, method, path, tag, summary, ...rest };
}

const refusal = (description: string): ApiAnswer => ({ description, schema: "Refusal" });

const READ_REFUSALS = {
  401: refusal("The token is missing or unknown: invalid_api_key."),
  422: refusal("A parameter is invalid: invalid_request; or X-Source names another source: unknown_source."),
  429: refusal("Too many wrong tokens came from this address: too_many_attempts, with Retry-After."),
  500: refusal("A mistake of the mirror: internal_error."),
  503: refusal(
    "The mirror cannot be read at the moment, or too many requests wait or streams are open: too_many_waits, too_many_streams. Retry-After says when to retry.",
  ),
};
const NO_ORDER = refusal("No such order: order_not_found.");
const NOT_COMPLETE = refusal(
  "The mirror is not complete up to the time in `complete`: not_complete. The message says up to when it is, what is missing, and why.",
);
const UNCHANGED: ApiAnswer = { description: "Not changed since the ETag of If-None-Match." };
const CACHE = { "If-None-Match": "The ETag of an earlier answer: 304 when nothing has changed." };

const READS: readonly ApiEndpoint[] = [
  endpoint(["listOrders", "get", "/v1/orders"], "Orders", "List orders", {
    description:
      'As at the provider, and by cursor: Link: rel="next" leads to the next page without missing an order that changes meanwhile.',
    query: pageSchema.extend(completeSchema.shape),
    headers: CACHE,
    answers: {
      200: { description: "A page of orders.", schema: "OrderPage" },
      304: UNCHANGED,
      412: NOT_COMPLETE,
      ...READ_REFUSALS,
    },
  }),
  endpoint(["getOrder", "get", "/v1/orders/{reference}"], "Orders", "Read one order", {
    description:
      "With updatedAfter and wait it answers as soon as there is something newer; X-Waited tells. Most clients remove the segments `.` and `..` from a path: ask for an order with such a reference by its externalOrderId, or with `curl --path-as-is`.",
    query: waitSchema,
    headers: CACHE,
    answers: {
      200: { description: "The order.", schema: "OrderAnswer" },
      304: UNCHANGED,
      404: NO_ORDER,
      412: NOT_COMPLETE,
      ...READ_REFUSALS,
    },
  }),
  endpoint(["listBranches", "get", "/v1/branches"], "Orders", "List branches", {
    headers: CACHE,
    answers: {
      200: { description: "The open branches, in one page.", schema: "BranchPage" },
      304: UNCHANGED,
      ...READ_REFUSALS,
    },
  }),
];

const FEED_RESTARTED = refusal(
  "The position is not valid, or not any more: feed_restarted. Take the position of latest, then read the orders, then continue from that position.",
);

const FEED: readonly ApiEndpoint[] = [
  endpoint(["listChanges", "get", "/v1/changes"], "Changes", "Read the change feed", {
    description:
      "Every change of every order once; the changes of each order are in sequence. Send `next` as `after` while `hasMore` is true, even if a page has fewer changes than `limit`; for new changes, send it again later or follow the stream. A position is opaque and belongs to one source.",
    query: feedParametersSchema,
    headers: CACHE,
    answers: {
      200: { description: "The changes after the position.", schema: "ChangePage" },
      304: UNCHANGED,
      410: FEED_RESTARTED,
      ...READ_REFUSALS,
    },
  }),
  endpoint(["streamChanges", "get", "/v1/changes/stream"], "Changes", "Follow the change feed", {
    description:
      "Server-sent events `change`, whose data is a Change and whose id is its position, and `complete`, which says up to when every change has been sent. The first block has only an id, the position of the start, and the wait before a reconnection. Skip events of other names. A comment every 15 s shows that the stream is alive. It ends when the mirror restarts, and for a reader that takes nothing for 30 s. After a lost connection, continue with the last id.",
    query: feedParametersSchema.omit({ limit: true }),
    headers: { "Last-Event-ID": "Continues after this position; overrides after." },
    answers: {
      200: { description: "An endless stream.", type: "text/event-stream", events: "StreamedEvent" },
      410: FEED_RESTARTED,
      ...READ_REFUSALS,
    },
  }),
];

const EXPORTS: readonly ApiEndpoint[] = (
  [
    ["exportOrdersAsCsv", "csv", "text/csv", "The columns of reporting.orders."],
    [
      "exportOrdersAsNdjson",
      "ndjson",
      "application/x-ndjson",
      "One order per line, as the provider sent it.",
    ],
  ] as const
).map(([id, format, type, description]) =>
  endpoint([id, "get", `/v1/orders.${format}`], "Exports", `Export orders as ${format.toUpperCase()}`, {
    description,
    query: filterSchema.extend(completeSchema.shape),
    answers: {
      200: {
        description: "All orders of the filter; X-Safe-Through says up to when they are complete.",
        type,
      },
      412: NOT_COMPLETE,
      ...READ_REFUSALS,
    },
  }),
);

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

/** A write; a POST unless `rest` says otherwise. */
function write(
  [id, path]: readonly [id: string, path: string],
  summary: string,
  { method = "post", answers, ...rest }: Pick<ApiEndpoint, "answers"> & Partial<ApiEndpoint>,
): ApiEndpoint {
  return endpoint([id, method, path], "Writes", summary, {
    description: THROUGH,
    ...rest,
    answers: { ...answers, ...WRITE_REFUSALS },
  });
}

const changed = {
  200: { description: `The order. ${MIRRORED}`, schema: "OrderAnswer" },
  404: NO_ORDER,
} as const;

/** The provider's writes. */
const WRITES: readonly ApiEndpoint[] = [
  write(["createOrder", "/v1/orders"], "Create an order", {
    description: `${THROUGH} It is sent once: after a timeout, look for the externalOrderId before sending it again.`,
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

/** All endpoints for programs, in the order in which people meet them. */
export const ENDPOINTS: readonly ApiEndpoint[] = [...READS, ...FEED, ...EXPORTS, ...WRITES];

const eventRefusal = (description: string): ApiAnswer => ({ description, schema: "EventRefusal" });

const SIGNATURE = {
  "webhook-timestamp": "Seconds since 1970.",
  "webhook-signature": "Signatures of id, timestamp and body.",
};

/** The endpoint for events from the provider. */
export const INCOMING: readonly ApiEndpoint[] = [
  endpoint(["receiveEvent", "post", "/webhooks/{source}"], "Webhooks", "Receive an event from the provider", {
    description:
      "Signed according to WEBHOOK_SCHEME; the headers shown are those of Standard Webhooks. Answered once the event is stored.",
    headers: { "webhook-id": "The event's id.", ...SIGNATURE },
    body: "Event",
    open: true,
    answers: {
      200: { description: "Stored, now or earlier; without a body." },
      400: eventRefusal("An empty body, or contradictory headers."),
      401: eventRefusal("No valid signature."),
      404: eventRefusal("The source does not exist or has no secrets."),
      413: eventRefusal("The body is too large."),
      415: eventRefusal("Not JSON, or a content encoding."),
      500: eventRefusal("A mistake of the mirror; send it again."),
      503: eventRefusal("It cannot be stored now; send it again."),
    },
  }),
];

function outgoing(type: OutgoingType): ApiEndpoint {
  const words = type.split(/[._]/).map((word) => word.charAt(0).toUpperCase() + word.slice(1));
  return endpoint([`on${words.join("")}`, "post", type], "Webhooks", MEANINGS[type], {
    description:
      "Sent to the endpoints of OUTGOING_WEBHOOKS_FILE; signed as in Standard Webhooks. What a change shows of its orders depends on the endpoint's `fields`.",
    headers: { "webhook-id": "The message's id, the same in each repetition.", ...SIGNATURE },
    body: "OutgoingMessage",
    open: true,
    answers: {
      "2XX": { description: "Accepted, within 15 s." },
      410: { description: "The endpoint wants no further attempt of this message." },
      default: { description: "The message is sent again later; Retry-After is respected." },
    },
  });
}

const MEANINGS: Readonly<Record<OutgoingType, string>> = {
  "order.new": "An order that the mirror had not seen",
  "order.status_changed": "An order has another status",
  "order.gone": "The provider no longer has an order",
  "order.changed": "Anything else of an order has changed",
};

/** The messages to the business's own endpoints, by type. */
export const OUTGOING: readonly ApiEndpoint[] = OUTGOING_TYPES.map(outgoing);
