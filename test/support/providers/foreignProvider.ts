import { formatInstant, parseInstant, type Instant } from "../../../src/domain/order/instant.ts";
import { makeOrder } from "../mirror/orders.ts";
import { json, startScriptedProvider, type ReceivedRequest, type Step } from "./scriptedProvider.ts";

const LIMIT_MAX = 50;
const ORDERS = "/v1/orders";

/**
 * An HTTP provider that differs from the sandbox: its list is sorted by creation, newest first, with at most 50 orders
 * a page. It does not reveal its limits, and its errors are plain text.
 */
export async function startForeignProvider() {
  const provider = await startScriptedProvider();
  const orders = new Map<string, { readonly updatedAt: Instant; readonly status: string }>();

  function write(reference: string, { updatedAt, status }: { updatedAt: Instant; status: string }) {
    return makeOrder({ reference, updatedAt: formatInstant(updatedAt), status });
  }

  function listOrders({ searchParams }: URL): Step {
    const bound = (name: string) => {
      const text = searchParams.get(name);
      return text === null ? undefined : parseInstant(text);
    };
    const [since, until] = [bound("updatedSince"), bound("updatedUntil")];
    const inside = [...orders]
      .filter(([, { updatedAt }]) => since === undefined || updatedAt >= since)
      .filter(([, { updatedAt }]) => until === undefined || updatedAt < until)
      .toReversed();
    const limit = Math.min(Number(searchParams.get("limit") ?? LIMIT_MAX), LIMIT_MAX);
    const offset = Number(searchParams.get("offset") ?? 0);
    const shown = inside.slice(offset, offset + limit);
    const data = shown.map(([reference, order]) => write(reference, order));
    return json(200, {
      data,
      hasMore: offset + shown.length < inside.length,
      limit,
      offset,
      request_id: "r",
    });
  }

  function answer(request: ReceivedRequest): Step {
    const url = new URL(request.url, provider.url);
    if (url.pathname === ORDERS) return listOrders(url);
    if (url.pathname === "/v1/branches") {
      const data = [{ id: "branch-1", reference: null, name: "Centre" }];
      return json(200, { data, hasMore: false, limit: LIMIT_MAX, offset: 0, request_id: "r" });
    }
    const reference = decodeURIComponent(url.pathname.slice(ORDERS.length + 1));
    const order = orders.get(reference);
    return order === undefined
      ? json(404, { error: "no such order", code: "order_not_found" })
      : json(200, write(reference, order));
  }

  provider.script((response, request) => answer(request)(response, request));
  return {
    url: provider.url,
    /** Creates an order or changes it. */
    put: (reference: string, updatedAt: Instant, status: string) =>
      void orders.set(reference, { updatedAt, status }),
    /** The status of each order. */
    truth: () => Object.fromEntries([...orders].map(([reference, { status }]) => [reference, status])),
    close: () => provider.close(),
  };
}
