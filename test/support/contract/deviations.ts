import { pageSchema } from "../../../src/api/orderQuery.ts";
import type { CorpusRequest } from "./dropInCorpus.ts";

export interface ComparedAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A difference between an answer of the mirror and the provider's. */
export interface Deviation {
  /** The name in docs/assumptions.md, which says why. */
  readonly what: string;
  /** The requests with this difference. */
  readonly concerns: (request: CorpusRequest) => boolean;
  /** The parts that are still compared. */
  readonly reduce: (answer: ComparedAnswer) => ComparedAnswer;
}

const words = (text: string) => text.split(" ");
const isOrderPage = ({ target }: CorpusRequest) => /^\/v1\/orders(?:\?|$)/.test(target);
const OUR_ADDRESS = /^\/v1\/(?:changes|orders\.)/;
const KNOWN_PARAMETERS = Object.keys(pageSchema.shape);
/** Neither side knows a parameter of the list. */
const hasUnknown = ({ target }: CorpusRequest) =>
  [...new URL(target, "http://mirror").searchParams.keys()].some((name) => !KNOWN_PARAMETERS.includes(name));
const always = () => true;
const nothing = (): ComparedAnswer => ({ status: 0, headers: {}, body: "" });
const without =
  (...names: string[]) =>
  (answer: ComparedAnswer): ComparedAnswer => ({
    ...answer,
    headers: Object.fromEntries(Object.entries(answer.headers).filter(([name]) => !names.includes(name))),
  });

/** All differences: everything else must be equal byte for byte. The table in docs/assumptions.md has the same rows. */
export const DEVIATIONS: readonly Deviation[] = [
  {
    what: "no `RateLimit` and `RateLimit-Policy`, no 429",
    concerns: always,
    reduce: without("ratelimit", "ratelimit-policy"),
  },
  {
    what: "more headers: `X-Safe-Through`, `X-Safe-Through-Exceptions`, `X-Waited`, `X-Mirrored`, `X-Branches-As-Of`, `ETag`, `Link`, `X-Request-Id` and those that protect browsers",
    concerns: always,
    reduce: without(
      ...words(
        "x-safe-through x-safe-through-exceptions x-stale-seconds x-branches-as-of x-mirrored x-waited etag",
      ),
      ...words("link x-request-id vary x-content-type-options content-security-policy referrer-policy"),
      ...words("strict-transport-security x-frame-options x-dns-prefetch-control x-download-options"),
      ...words(
        "x-permitted-cross-domain-policies x-xss-protection origin-agent-cluster x-order-mirror-sandbox",
      ),
      ...words("cross-origin-opener-policy cross-origin-resource-policy"),
    ),
  },
  {
    what: "`Cache-Control: private, no-cache`",
    concerns: always,
    reduce: without("cache-control"),
  },
  {
    what: "the values of `request_id` and `Date`; `Connection` and `Keep-Alive`",
    concerns: always,
    reduce: (answer) => ({
      ...without("date", "connection", "keep-alive")(answer),
      body: answer.body.replace(/"request_id":"req_[0-9a-f]{24}"/, '"request_id":"…"'),
    }),
  },
  {
    what: "the order of orders with the same `pickupTime` or `updatedAt`, which are sorted by `reference`",
    concerns: (request) => isOrderPage(request) && request.target.includes("sort=pickupTime"),
    reduce: (answer) => ({ ...answer, body: keepKeys(answer.body) }),
  },
  {
    what: "a branch that was closed before the mirror first looked, and has no orders: 422 `branch_not_found`",
    concerns: (request) => isOrderPage(request) && request.target.includes("branch=leiden"),
    reduce: nothing,
  },
  {
    what: "parameters of our own: `fleet`, `cursor`, `revisions`, `complete`, `updatedAfter`, `wait`, `sort=firstSeenAt`",
    concerns: (request) =>
      isOrderPage(request) && /fleet=|firstSeenAt|cursor=|revisions=/.test(request.target),
    reduce: nothing,
  },
  {
    what: "unknown parameters of the list and of a single order: 422 `invalid_request`, with the nearest known name",
    concerns: (request) => isOrderPage(request) && hasUnknown(request),
    reduce: nothing,
  },
  {
    what: "the message that refuses another `sort`",
    concerns: (request) => isOrderPage(request) && /[?&]sort/.test(request.target),
    reduce: (answer) => ({
      ...without("content-length")(answer),
      body: answer.body.replace("updatedAt, pickupTime, firstSeenAt.", "updatedAt, pickupTime."),
    }),
  },
  {
    what: "addresses of our own: `/v1/changes`, `/v1/changes/stream`, `/v1/orders.csv`, `/v1/orders.ndjson`",
    concerns: ({ target }) => OUR_ADDRESS.test(target),
    reduce: nothing,
  },
  {
    what: "addresses outside `/v1`: 404 `not_found` without a key, too",
    concerns: ({ target }) => !target.startsWith("/v1"),
    reduce: nothing,
  },
  {
    what: "304 to `If-None-Match`",
    concerns: ({ headers }) => headers !== undefined && "if-none-match" in headers,
    reduce: nothing,
  },
];

/** The sort keys of a page sorted by pickupTime, because the sequence of equal ones is not comparable. */
function keepKeys(body: string): string {
  if (!body.startsWith('{"data"')) return body;
  const page = JSON.parse(body) as { data: { pickupTime: string }[]; request_id?: string };
  return JSON.stringify({ ...page, data: page.data.map(({ pickupTime }) => pickupTime), request_id: "…" });
}
