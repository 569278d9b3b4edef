/**
 * The OpenAPI document. The schemas of bodies and parameters are those that parse and write them, so a field stands
 * once; this file adds addresses, answers and what they mean. Start at `describeApi`.
 */
import { z } from "zod";
import { OUTGOING_TYPES, type OutgoingType } from "../../domain/order/outgoing.ts";
import { VERSION } from "../../process/version.ts";
import {
  createOrderSchema,
  errorBodySchema,
  listBranchesResponseSchema,
  listOrdersResponseSchema,
  quoteResponseSchema,
  updateOrderSchema,
  validateAddressResponseSchema,
  addressSchema,
} from "../../wire/api.ts";
import { orderResponseSchema, orderSchema } from "../../wire/order.ts";
import { changeSchema, completenessSchema } from "../../changes/changeJson.ts";
import { ANSWER_HEADERS, describeHeaders, type AnswerHeader } from "./answerHeaders.ts";
import { feedParametersSchema, streamParametersSchema } from "../changeRoutes.ts";
import { API_ENDPOINTS, type EndpointName } from "../endpoints.ts";
import { exportSchema, pageSchema } from "../orderQuery.ts";
import { waitSchema } from "../orderRoutes.ts";

type JsonSchema = Record<string, unknown>;

/** Bodies by the names that the endpoints use; all schemas of parsed and written bodies. */
const SCHEMAS = {
  Order: orderSchema,
  OrderAnswer: orderResponseSchema,
  OrderPage: listOrdersResponseSchema.extend({
    revisions: z
      .array(z.object({ revision: z.number().int(), changedAt: z.string() }))
      .optional()
      .describe("With revisions=1: how often each order of `data` has changed, and when it last did."),
  }),
  BranchPage: listBranchesResponseSchema,
  Change: changeSchema,
  StreamedEvent: z.union([
    z.object({
      event: z.literal("change"),
      id: z.string().describe("The position of the change."),
      data: changeSchema,
    }),
    z.object({
      event: z.literal("complete"),
      id: z.string().describe("The position of the last change."),
      data: completenessSchema.extend({ position: z.string() }),
    }),
  ]),
  OutgoingMessage: z.object({
    type: z.enum(OUTGOING_TYPES),
    timestamp: z.string().describe("The mirror's time of the change."),
    source: z.string(),
    data: changeSchema,
  }),
  ChangePage: z.object({
    data: z.array(changeSchema),
    hasMore: z.boolean(),
    next: z.string().describe("For `after`, even if there is nothing new."),
    complete: completenessSchema
      .nullable()
      .describe("What holds at `next`; null while not everything that is proved has been given."),
    request_id: z.string(),
  }),
  NewOrder: createOrderSchema,
  OrderChange: updateOrderSchema,
  Quote: quoteResponseSchema,
  Address: addressSchema,
  AddressCheck: validateAddressResponseSchema,
  Refusal: errorBodySchema,
} as const satisfies Record<string, z.ZodType>;
type SchemaName = keyof typeof SCHEMAS;

const TAGS = {
  Orders: "The provider's reads.",
  Changes: "Every change of every order, as a list and as a stream.",
  Exports: "All orders of a filter in one file.",
  Writes: "The provider's writes, with WRITE_THROUGH.",
  Webhooks: "Messages to the business's own endpoints.",
};

interface Answer {
  readonly description: string;
  /** Beside those of its status, and X-Request-Id. */
  readonly headers?: readonly AnswerHeader[];
  readonly content?: Readonly<Record<string, { readonly schema: JsonSchema }>>;
}

interface Operation {
  readonly tag: keyof typeof TAGS;
  readonly summary: string;
  readonly description?: string;
  readonly query?: z.ZodObject;
  /** Name to meaning. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: SchemaName;
  readonly answers: Readonly<Record<number | string, Answer>>;
  /** Needs no token. */
  readonly open?: boolean;
}

const refer = (name: SchemaName): JsonSchema => ({ $ref: `#/components/schemas/${name}` });
const json = (name: SchemaName) => ({ "application/json": { schema: refer(name) } });
const text = (type: string, schema: JsonSchema = {}) => ({
  [type]: { schema: { type: "string", ...schema } },
});
const refusal = (description: string, headers: readonly AnswerHeader[] = []): Answer => ({
  description,
  headers,
  content: json("Refusal"),
});

const READ_REFUSALS = {
  401: refusal("The token is missing or unknown: invalid_api_key."),
  422: refusal("A parameter is invalid: invalid_request; or X-Source names another source: unknown_source."),
  500: refusal("A mistake of the mirror: internal_error."),
  503: refusal(
    "The mirror cannot be read at the moment, or this client or all together have too many answers unread, requests waiting, streams or exports: too_many_unread, too_many_waits, too_many_streams, too_many_exports.",
  ),
};
const NO_ORDER = refusal("No such order: order_not_found.", ["X-Safe-Through", "X-Safe-Through-Exceptions"]);
const NOT_COMPLETE = refusal(
  "The mirror is not complete up to the time in `complete`: not_complete. The message says up to when it is, what is missing, and why.",
  ["X-Safe-Through", "X-Safe-Through-Exceptions"],
);
/** Headers that say how far an answer with orders can be trusted. */
const FRESHNESS = ["X-Safe-Through", "X-Safe-Through-Exceptions"] as const;
/** A read whose client may already have the answer. */
const CACHED = {
  headers: { "If-None-Match": "The ETag of an earlier answer: 304 when nothing has changed." },
  answer: { 304: { description: "Not changed since the ETag of If-None-Match." } },
} as const;
const FEED_RESTARTED = refusal(
  "The position is not valid, or not any more: feed_restarted. Take the position of latest, then read the orders, then continue from that position.",
);

/** The events in the text of the stream; version 3.2 of OpenAPI calls this itemSchema. */
const EVENTS = {
  contentMediaType: "text/event-stream",
  contentSchema: { type: "array", items: refer("StreamedEvent") },
};

function exported(format: string, type: string, description: string): Operation {
  return {
    tag: "Exports",
    summary: `Export orders as ${format}`,
    description,
    query: exportSchema,
    answers: {
      200: {
        description: "All orders of the filter; X-Safe-Through says up to when they are complete.",
        headers: [...FRESHNESS, "Content-Disposition"],
        content: text(type),
      },
      412: NOT_COMPLETE,
      ...READ_REFUSALS,
    },
  };
}

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
    "A rate limit of the provider is exceeded: rate_limit_exceeded. Retry-After says when to retry.",
  ),
  500: READ_REFUSALS[500],
  502: refusal(
    "The provider gave no usable answer, or cannot be reached, as the message says: provider_unavailable; or the mirror's key is refused, or not the source's own: source_key_refused.",
  ),
  504: refusal(
    "The provider did not answer in time: provider_timeout. Whether the write happened is unknown.",
  ),
  default: refusal("Any other refusal of the provider, unchanged."),
};
const MIRRORED = "The order is already in the mirror; X-Mirrored: later means that it is not there yet.";

/** Headers of the provider's own answer to a write. */
const PASSED = ["RateLimit", "RateLimit-Policy", "Service-Subscription-State", "X-Mirrored"] as const;

function write(
  summary: string,
  { answers, ...rest }: Pick<Operation, "answers"> & Partial<Operation>,
): Operation {
  return {
    tag: "Writes",
    summary,
    description: THROUGH,
    ...rest,
    answers: Object.fromEntries(
      Object.entries<Answer>({ ...answers, ...WRITE_REFUSALS }).map(
        ([status, { headers = [], ...answer }]) => [status, { ...answer, headers: [...headers, ...PASSED] }],
      ),
    ),
  };
}

const CHANGED = {
  200: { description: `The order. ${MIRRORED}`, content: json("OrderAnswer") },
  404: NO_ORDER,
} as const;

/** Describes each endpoint. Their names are those of the functions in generated clients. */
const OPERATIONS: Readonly<Record<EndpointName, Operation>> = {
  listOrders: {
    tag: "Orders",
    summary: "List orders",
    description:
      'As at the provider, and by cursor: Link: rel="next" leads to the next page without missing an order that changes meanwhile.',
    query: pageSchema,
    headers: CACHED.headers,
    answers: {
      200: {
        description: "A page of orders.",
        headers: [...FRESHNESS, "ETag", "Link"],
        content: json("OrderPage"),
      },
      412: NOT_COMPLETE,
      ...CACHED.answer,
      ...READ_REFUSALS,
    },
  },
  createOrder: write("Create an order", {
    description: `${THROUGH} It is sent once: after a timeout, look for the externalOrderId before sending it again.`,
    body: "NewOrder",
    answers: {
      201: { description: `The order. ${MIRRORED}`, content: json("OrderAnswer") },
      409: refusal("The externalOrderId is already in use: duplicate_external_order_id."),
    },
  }),
  getOrder: {
    tag: "Orders",
    summary: "Read one order",
    description:
      "With updatedAfter and wait it answers as soon as there is something newer; X-Waited tells. Most clients remove the segments `.` and `..` from a path: ask for an order with such a reference by its externalOrderId, or with `curl --path-as-is`.",
    query: waitSchema,
    headers: CACHED.headers,
    answers: {
      200: {
        description: "The order.",
        headers: [...FRESHNESS, "ETag", "X-Waited"],
        content: json("OrderAnswer"),
      },
      404: NO_ORDER,
      412: NOT_COMPLETE,
      ...CACHED.answer,
      ...READ_REFUSALS,
    },
  },
  updateOrder: write("Change an order", {
    description: `${THROUGH} Method and path are assumed, because the provider does not document them.`,
    body: "OrderChange",
    answers: CHANGED,
  }),
  listBranches: {
    tag: "Orders",
    summary: "List branches",
    headers: CACHED.headers,
    answers: {
      200: {
        description: "The open branches, in one page.",
        headers: ["ETag", "X-Branches-As-Of"],
        content: json("BranchPage"),
      },
      ...CACHED.answer,
      ...READ_REFUSALS,
    },
  },
  listChanges: {
    tag: "Changes",
    summary: "Read the change feed",
    description:
      "Every change of every order once; the changes of each order are in sequence. Send `next` as `after` while `hasMore` is true, even if a page has fewer changes than `limit`; for new changes, send it again later or follow the stream. A position is opaque and belongs to one source.",
    query: feedParametersSchema,
    answers: {
      200: { description: "The changes after the position.", content: json("ChangePage") },
      410: FEED_RESTARTED,
      ...READ_REFUSALS,
    },
  },
  streamChanges: {
    tag: "Changes",
    summary: "Follow the change feed",
    description:
      "Server-sent events `change`, whose data is a Change and whose id is its position, and `complete`, which says up to when every change has been sent. The first block has only an id, the position of the start, and the wait before a reconnection. Skip events of other names. A comment every 15 s shows that the stream is alive. It ends when the mirror restarts, and for a reader that takes nothing for 30 s. After a lost connection, continue with the last id.",
    query: streamParametersSchema,
    headers: { "Last-Event-ID": "Continues after this position; overrides after." },
    answers: {
      200: { description: "An endless stream.", content: text("text/event-stream", EVENTS) },
      410: FEED_RESTARTED,
      ...READ_REFUSALS,
    },
  },
  exportOrdersAsCsv: exported("CSV", "text/csv", "The columns of reporting.orders."),
  exportOrdersAsNdjson: exported(
    "NDJSON",
    "application/x-ndjson",
    "One order per line, as the provider sent it.",
  ),
  quoteOrder: write("Preview an order", {
    body: "NewOrder",
    answers: { 200: { description: "What a creation would return.", content: json("Quote") } },
  }),
  cancelOrder: write("Cancel an order", { answers: CHANGED }),
  advanceOrder: write("Advance a test order", { answers: CHANGED }),
  validateAddress: write("Check an address", {
    body: "Address",
    answers: {
      200: { description: "Whether it is valid, and if not, why.", content: json("AddressCheck") },
    },
  }),
};

const MESSAGES: Readonly<Record<OutgoingType, string>> = {
  "order.new": "An order that the mirror had not seen",
  "order.status_changed": "An order has another status",
  "order.gone": "The provider no longer has an order",
  "order.changed": "Anything else of an order has changed",
};

function outgoing(type: OutgoingType): Operation {
  return {
    tag: "Webhooks",
    summary: MESSAGES[type],
    description:
      "Sent to the endpoints of OUTGOING_WEBHOOKS_FILE; signed as in Standard Webhooks. What a change shows of its orders depends on the endpoint's `fields`. A test has the type `test` and no change: its `data` is empty.",
    headers: {
      "webhook-id": "The message's id, the same in each repetition.",
      "webhook-timestamp": "Seconds since 1970.",
      "webhook-signature": "Signatures of id, timestamp and body.",
    },
    body: "OutgoingMessage",
    open: true,
    answers: {
      "2XX": { description: "Accepted, within 15 s." },
      410: { description: "The endpoint wants no further attempt of this message." },
      default: { description: "The message is sent again later; Retry-After is respected." },
    },
  };
}

const nameReceiver = (type: OutgoingType) =>
  `on_${type}`.replaceAll(/[._]([a-z])/g, (_, letter: string) => letter.toUpperCase());

const INTRODUCTION =
  "The provider's own reads, answered from the mirror in the provider's format, and features that only a mirror can offer. Every answer with orders has X-Safe-Through, up to when it is complete, and X-Safe-Through-Exceptions, the number of orders, up to 1,000, that were seen but could not be read or confirmed.";

const TOKEN =
  "A token of API_TOKENS; bound to one source, which the header X-Source may name. Without any token, with LOCAL_TRUST, X-Source selects the source, by default live.";

/** The OpenAPI 3.1 document of the read API, the change feed, exports, writes and outgoing webhooks. */
export function describeApi() {
  return {
    openapi: "3.1.0",
    info: {
      title: "order-mirror",
      version: VERSION,
      description: INTRODUCTION,
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "." }],
    security: [{ token: [] }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths: describePaths(),
    webhooks: Object.fromEntries(
      OUTGOING_TYPES.map((type) => [type, { post: describeOperation(nameReceiver(type), outgoing(type)) }]),
    ),
    components: {
      schemas: describeSchemas(),
      headers: ANSWER_HEADERS,
      securitySchemes: { token: { type: "http", scheme: "bearer", description: TOKEN } },
    },
  };
}

function describePaths() {
  const paths: Record<string, Record<string, ReturnType<typeof describeOperation>>> = {};
  for (const { name, method, path } of API_ENDPOINTS) {
    const place = (paths[path.replace(":reference", "{reference}")] ??= {});
    place[method.toLowerCase()] = describeOperation(name, OPERATIONS[name], path.includes(":reference"));
  }
  return paths;
}

function describeOperation(id: string, operation: Operation, namesOrder = false) {
  const { tag, summary, description, query, headers = {}, body, answers, open } = operation;
  const inPath = namesOrder ? [describeParameter("reference", "path", REFERENCE)] : [];
  const asked = { ...(open === true ? {} : SOURCE), ...headers };
  const inHeader = Object.entries(asked).map(([name, meaning]) => describeParameter(name, "header", meaning));
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(description === undefined ? {} : { description }),
    ...(open === true ? { security: [] } : {}),
    parameters: [...inPath, ...(query === undefined ? [] : describeQuery(query)), ...inHeader],
    ...(body === undefined ? {} : { requestBody: { required: true, content: json(body) } }),
    responses: Object.fromEntries(
      Object.entries(answers).map(([status, { headers: named, ...answer }]) => [
        status,
        { ...answer, headers: open === true ? {} : describeHeaders(status, named) },
      ]),
    ),
  };
}

const SOURCE = {
  "X-Source": "The source to read; must be the token's own. Without tokens, by default live.",
};
const REFERENCE = "The provider's reference, or the externalOrderId.";

/** Parameters before parsing. All are optional, because each has a default or means no condition. */
function describeQuery(query: z.ZodObject) {
  const { properties = {} } = z.toJSONSchema(query, { io: "input", override: tidy });
  return Object.entries(properties).map(([name, schema]) => {
    const { description = "", ...rest } = schema as JsonSchema & { description?: string };
    return describeParameter(name, "query", description, rest);
  });
}

function describeParameter(
  name: string,
  place: "path" | "query" | "header",
  description: string,
  schema: JsonSchema = { type: "string" },
) {
  return { name, in: place, required: place === "path", description, schema };
}

/** A number in an address is matched as text, which does not help a reader. */
function tidy({ jsonSchema }: { jsonSchema: JsonSchema }): void {
  if (jsonSchema["type"] === "integer") delete jsonSchema["pattern"];
}

function describeSchemas(): Record<string, JsonSchema> {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(SCHEMAS)) registry.add(schema, { id });
  const { schemas } = z.toJSONSchema(registry, { uri: (id) => `#/components/schemas/${id}` });
  for (const schema of Object.values(schemas)) {
    // The document states both for all of them.
    delete schema.$schema;
    delete schema.$id;
  }
  return schemas as Record<string, JsonSchema>;
}
