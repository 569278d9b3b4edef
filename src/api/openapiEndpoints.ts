import type { z } from "zod";
import { feedParametersSchema } from "../changes/changeQuery.ts";
import { exportOptionsSchema } from "../orders/export/exportRoutes.ts";
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

export interface ApiEndpoint {
  /** The name of the operation in generated clients. */
  readonly id: string;
  readonly method: "get" | "post" | "patch";
  readonly path: string;
  readonly tag:
    "Orders" | "Changes" | "Exports" | "Certificates" | "Writes" | "Webhooks" | "Provider" | "Events";
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

const refusal = (description: string): ApiAnswer => ({ description, schema: "Refusal" });

const READ_REFUSALS = {
  401: refusal("The token is missing or unknown: invalid_api_key."),
  422: refusal("A parameter is invalid: invalid_request; or X-Source names another source: unknown_source."),
  429: refusal("Too many wrong tokens came from this address: too_many_attempts, with Retry-After."),
  500: refusal("A mistake of the mirror: internal_error."),
  503: refusal("The mirror cannot be read at the moment; Retry-After says when to retry."),
};
const READ_REFUSALS_OF_WAITS = {
  ...READ_REFUSALS,
  503: refusal(
    "The mirror cannot be read at the moment, or too many requests wait: too_many_waits. Retry-After says when to retry.",
  ),
};
const NOT_COMPLETE = refusal(
  "The mirror is not complete up to the time in `complete`: not_complete. The message says up to when it is, what is missing, and why.",
);
const NO_ORDER = refusal("No such order: order_not_found.");
const UNCHANGED: ApiAnswer = { description: "Not changed since the ETag of If-None-Match." };
const CACHE = { "If-None-Match": "The ETag of an earlier answer: 304 when nothing has changed." };

const READS: readonly ApiEndpoint[] = [
  {
    id: "listOrders",
    method: "get",
    path: "/v1/orders",
    tag: "Orders",
    summary: "List orders",
    description:
      'As at the provider, and by cursor: Link: rel="next" leads to the next page without missing an order that changes meanwhile.',
    query: pageSchema.extend(completeSchema.shape),
    headers: CACHE,
    answers: {
      200: { description: "A page of orders.", schema: "OrderPage" },
      304: UNCHANGED,
      412: NOT_COMPLETE,
      ...READ_REFUSALS_OF_WAITS,
    },
  },
  {
    id: "getOrder",
    method: "get",
    path: "/v1/orders/{reference}",
    tag: "Orders",
    summary: "Read one order",
    description: "With updatedAfter and wait it answers as soon as there is something newer; X-Waited tells.",
    query: waitSchema,
    headers: CACHE,
    answers: {
      200: { description: "The order.", schema: "OrderAnswer" },
      304: UNCHANGED,
      404: NO_ORDER,
      412: NOT_COMPLETE,
      ...READ_REFUSALS_OF_WAITS,
    },
  },
  {
    id: "listBranches",
    method: "get",
    path: "/v1/branches",
    tag: "Orders",
    summary: "List branches",
    headers: CACHE,
    answers: {
      200: { description: "The open branches, in one page.", schema: "BranchPage" },
      304: UNCHANGED,
      ...READ_REFUSALS,
    },
  },
];

const FEED_RESTARTED = refusal(
  "The position is no longer valid: feed_restarted. Read the orders again, then continue from latest.",
);

const FEED: readonly ApiEndpoint[] = [
  {
    id: "listChanges",
    method: "get",
    path: "/v1/changes",
    tag: "Changes",
    summary: "Read the change feed",
    description: "Every change of every order once; the changes of each order are in sequence.",
    query: feedParametersSchema,
    answers: {
      200: { description: "The changes after the position.", schema: "ChangePage" },
      410: FEED_RESTARTED,
      ...READ_REFUSALS,
    },
  },
  {
    id: "streamChanges",
    method: "get",
    path: "/v1/changes/stream",
    tag: "Changes",
    summary: "Follow the change feed",
    description:
      "Server-sent events `change`, whose data is a Change and whose id is its position, and `complete`, which says up to when every change has been sent. The first block has only an id, the position of the start, and the wait before a reconnection. A comment every 15 s shows that the stream is alive. After a lost connection, continue with the last id.",
    query: feedParametersSchema,
    headers: { "Last-Event-ID": "Continues after this position; overrides after." },
    answers: {
      200: { description: "An endless stream.", type: "text/event-stream", events: "StreamedEvent" },
      410: FEED_RESTARTED,
      ...READ_REFUSALS,
      429: refusal(
        "This token has too many streams open: too_many_streams; or too many wrong tokens came from this address: too_many_attempts.",
      ),
      503: refusal(
        "The mirror cannot be read at the moment, or too many streams are open: too_many_streams. Retry-After says when to retry.",
      ),
    },
  },
];

const RECONCILIATION: readonly ApiEndpoint[] = [
  {
    id: "reconcile",
    method: "post",
    path: "/v1/reconcile",
    tag: "Changes",
    summary: "Find what differs from a copy of the orders",
    description:
      "For readers that lost their place: compares fingerprints of ranges, and lists the differences of small ones. States of orders are sorted by updatedAt and then by hash; the digest of a state is the first half of the SHA-256 of salt and hash. All of an answer is of one instant. The client does the whole exchange.",
    body: "ReaderRanges",
    answers: {
      200: { description: "The ranges that differ.", schema: "RangeDifferences" },
      400: refusal("The body has another form: invalid_request; the message names the first mistake."),
      413: refusal("The body is larger than 1 MiB: payload_too_large."),
      415: refusal("The content encoding of the body is not supported: invalid_request."),
      ...READ_REFUSALS,
      422: refusal("X-Source names another source: unknown_source."),
    },
  },
];

function exported(
  [id, path, type]: readonly [id: string, path: string, type: string],
  rest: Pick<ApiEndpoint, "summary" | "description"> & { readonly query: z.ZodObject },
): ApiEndpoint {
  return {
    id,
    method: "get",
    path,
    tag: "Exports",
    ...rest,
    query: rest.query.extend(completeSchema.shape),
    answers: {
      200: { description: "All orders of the filter.", type },
      412: NOT_COMPLETE,
      ...READ_REFUSALS_OF_WAITS,
    },
  };
}

const EXPORTS: readonly ApiEndpoint[] = [
  exported(["exportOrdersAsCsv", "/v1/orders.csv", "text/csv"], {
    summary: "Export orders as CSV",
    query: filterSchema.extend(exportOptionsSchema.shape),
  }),
  exported(["exportOrdersAsNdjson", "/v1/orders.ndjson", "application/x-ndjson"], {
    summary: "Export orders as NDJSON",
    description: "One order per line, as the provider sent it.",
    query: filterSchema,
  }),
  exported(["exportOrdersAsParquet", "/v1/orders.parquet", "application/vnd.apache.parquet"], {
    summary: "Export orders as Parquet",
    description: "The columns of the CSV with their types; times are UTC, to the microsecond.",
    query: filterSchema,
  }),
];

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

const WRITES: readonly ApiEndpoint[] = [
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

const CERTIFICATES: readonly ApiEndpoint[] = [
  {
    id: "listCertificates",
    method: "get",
    path: "/v1/certificates",
    tag: "Certificates",
    summary: "Read the chain of certificates",
    description: "Signed statements, one DSSE envelope per line, the first one first.",
    answers: {
      200: { description: "The whole chain of the source.", type: "application/x-ndjson" },
      ...READ_REFUSALS,
    },
  },
  {
    id: "getCertificate",
    method: "get",
    path: "/v1/certificates/{day}",
    tag: "Certificates",
    summary: "Read the certificate of a day",
    description: "A signed statement that the mirror had every order of that day of UTC, such as 2026-11-21.",
    answers: {
      200: { description: "A DSSE envelope.", type: "application/vnd.dsse.envelope.v1+json" },
      404: refusal("There is no certificate of that day: certificate_not_found."),
      410: refusal("A later change has disproved it: certificate_disproved."),
      ...READ_REFUSALS,
    },
  },
];

/** All endpoints for programs, in the order in which people meet them. */
export const ENDPOINTS: readonly ApiEndpoint[] = [
  ...READS,
  ...FEED,
  ...RECONCILIATION,
  ...EXPORTS,
  ...CERTIFICATES,
  ...WRITES,
];
