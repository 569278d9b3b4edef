import type { z } from "zod";
import { feedParametersSchema } from "../changes/changeQuery.ts";
import { completeSchema } from "../orders/freshness.ts";
import type { SchemaName } from "./openapi.ts";
import { NO_ORDER, READ_REFUSALS, refusal } from "./openapiRefusals.ts";
import { WRITES } from "./openapiWrites.ts";
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

type Tag = "Orders" | "Changes" | "Exports" | "Writes" | "Webhooks" | "Provider" | "Events";

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
export function endpoint(
  [id, method, path]: readonly [id: string, method: ApiEndpoint["method"], path: string],
  tag: Tag,
  summary: string,
  rest: Omit<ApiEndpoint, "id" | "method" | "path" | "tag" | "summary">,
): ApiEndpoint {
  return { id, method, path, tag, summary, ...rest };
}

const READ_REFUSALS_OF_WAITS = {
  ...READ_REFUSALS,
  503: refusal(
    "The mirror cannot be read at the moment, or too many requests wait: too_many_waits. Retry-After says when to retry.",
  ),
};
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
      ...READ_REFUSALS_OF_WAITS,
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
      ...READ_REFUSALS_OF_WAITS,
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
      429: refusal(
        "This token has too many streams open: too_many_streams; or too many wrong tokens came from this address: too_many_attempts.",
      ),
      503: refusal(
        "The mirror cannot be read at the moment, or too many streams are open: too_many_streams. Retry-After says when to retry.",
      ),
    },
  }),
];

function exported(
  [id, path, type]: readonly [id: string, path: string, type: string],
  summary: string,
  { query, ...rest }: Pick<ApiEndpoint, "description"> & { readonly query: z.ZodObject },
): ApiEndpoint {
  return endpoint([id, "get", path], "Exports", summary, {
    ...rest,
    query: query.extend(completeSchema.shape),
    answers: {
      200: { description: "All orders of the filter.", type },
      412: NOT_COMPLETE,
      ...READ_REFUSALS_OF_WAITS,
    },
  });
}

const EXPORTS: readonly ApiEndpoint[] = [
  exported(["exportOrdersAsCsv", "/v1/orders.csv", "text/csv"], "Export orders as CSV", {
    query: filterSchema,
  }),
  exported(["exportOrdersAsNdjson", "/v1/orders.ndjson", "application/x-ndjson"], "Export orders as NDJSON", {
    description: "One order per line, as the provider sent it.",
    query: filterSchema,
  }),
];

/** All endpoints for programs, in the order in which people meet them. */
export const ENDPOINTS: readonly ApiEndpoint[] = [...READS, ...FEED, ...EXPORTS, ...WRITES];
