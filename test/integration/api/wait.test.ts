import { beforeEach, describe, expect, it, vi } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { makeOrderWait } from "../../../src/api/orderWait.ts";
import { makeNews } from "../../../src/api/news.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { insertOrder, orderText } from "../../support/mirror/orders.ts";
import { startTestApi } from "../../support/mirror/served.ts";
import { emptying } from "../../support/mirror/tables.ts";

const AT = "2026-11-20T10:00:00.000000001Z";
const LATER = "2026-11-20T10:00:00.000000002Z";

const api = await startTestApi();
beforeEach(() => api.database.pool.query(emptying("orders")));

const add = (fields: Record<string, unknown>) => insertOrder(api.database.pool, "live", orderText(fields));

async function get(path: string) {
  const startedMs = performance.now();
  const response = await fetch(`${api.url}/v1/orders/${path}`);
  const body = (await response.json()) as {
    reference?: string;
    updatedAt?: string;
    error?: { code: string };
  };
  const waited = response.headers.get("x-waited");
  return { status: response.status, waited, body, tookMs: performance.now() - startedMs };
}

/** Asks, and resolves when the mirror has looked in vain. */
const getWaiting = (path: string) => api.whileLooking(() => get(path));

describe("waiting for an order", () => {
  it("ends with the stored order when nothing newer arrives in time", async () => {
    await add({ reference: "A", updatedAt: AT });
    const answer = await get(`A?updatedAfter=${AT}&wait=1`);
    expect(answer).toMatchObject({ status: 200, waited: "timeout", body: { updatedAt: AT } });
    expect(answer.tookMs).toBeGreaterThanOrEqual(1_000);
  });

  it("works for an order that does not exist yet, by its externalOrderId", async () => {
    const { answer } = await getWaiting(`shop-1?updatedAfter=1970-01-01T00:00:00Z&wait=20`);
    await add({ reference: "A", externalOrderId: "shop-1" });
    expect(await answer).toMatchObject({ status: 200, waited: "newer", body: { reference: "A" } });
  });

  it("is for the order that is read, not for a newer one that has its reference as externalOrderId", async () => {
    await add({ reference: "A", updatedAt: AT });
    await add({ reference: "B", externalOrderId: "A", updatedAt: LATER });
    const path = `A?updatedAfter=${AT}&wait=0`;
    expect(await get(path)).toMatchObject({ waited: "timeout", body: { reference: "A" } });
    await api.database.pool.query(
      "update mirror.orders set gone_at = now(), horizon = horizon + 1 where reference = 'A'",
    );
    expect(await get(path)).toMatchObject({ waited: "newer", body: { reference: "B" } });
  });

  it("requires updatedAfter", async () => {
    await add({ reference: "A" });
    const answer = await get("A?wait=20");
    expect(answer).toMatchObject({ status: 200, waited: null });
    expect(answer.tookMs).toBeLessThan(15_000);
  });

  it.each(["wait=31", "wait=x", "updatedAfter=yesterday"])("refuses %s", async (query) => {
    expect((await get(`A?${query}`)).status).toBe(422);
  });
});

describe("many waiting requests", () => {
  const after = parseInstant(AT);
  const signal = new AbortController().signal;

  it("share one statement at a time", async () => {
    const query = vi.spyOn(api.pool, "query");
    const news = makeNews(systemClock);
    const orderWait = makeOrderWait({ pool: api.pool, clock: systemClock, news });
    const waits = Array.from({ length: 400 }, (_, n) =>
      orderWait(
        { sourceId: "live", reference: `R${n}`, instant: after },
        { client: `client ${n % 2}`, timeoutMs: 20_000, signal },
      ),
    );
    await add({ reference: "R399", updatedAt: LATER });
    expect(await waits[399]).toBe(true);
    await news.close();
    expect((await Promise.all(waits)).filter(Boolean)).toHaveLength(1);
    expect(query.mock.calls.length).toBeLessThan(100);
  });

  it("are refused beyond the cap and a half of it for one client, and released when the process closes", async () => {
    const news = makeNews(systemClock);
    const orderWait = makeOrderWait({ pool: api.pool, clock: systemClock, news });
    const wait = (client: string) =>
      orderWait({ sourceId: "live", reference: "A", instant: after }, { client, timeoutMs: 20_000, signal });
    const refusal = { status: 503, code: "too_many_waits" };
    const waits = Array.from({ length: 250 }, () => wait("a"));
    await expect(wait("a")).rejects.toMatchObject(refusal);
    waits.push(...Array.from({ length: 250 }, () => wait("b")));
    await expect(wait("c")).rejects.toMatchObject(refusal);
    await news.close();
    expect(await Promise.all(waits)).not.toContain(true);
    expect(await wait("a")).toBe(false);
  });
});
