import { beforeEach, describe, expect, it, vi } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { makeOrderWait } from "../../../src/api/orderWait.ts";
import { makeNews } from "../../../src/api/news.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { insertOrder, orderText, addSource } from "../../support/mirror/orders.ts";
import { emptying, prove } from "../../support/mirror/tables.ts";
import { startTestApi } from "../../support/mirror/served.ts";

const BEFORE_T = "2026-11-21T13:59:59.999999999Z";
const T = "2026-11-21T14:00:00Z";
const AFTER_T = "2026-11-21T14:00:00.000000001Z";

const api = await startTestApi();
const { pool } = api.database;
await addSource(pool, "live");
beforeEach(async () => {
  await pool.query(
    `${emptying("orders poll_state coverage leases")}; update mirror.sources set paused_at = null`,
  );
  await add({ reference: "A" });
});

const add = (fields: Record<string, unknown>) =>
  insertOrder(pool, "live", orderText({ updatedAt: T, ...fields }));

async function get(path: string) {
  const startedMs = performance.now();
  const response = await fetch(`${api.url}/v1/${path}`);
  const text = await response.text();
  const tookMs = performance.now() - startedMs;
  const { status, headers } = response;
  const body = (headers.get("content-type")?.startsWith("application/json") ? JSON.parse(text) : {}) as {
    reference?: string;
    error?: { message: string };
  };
  const [waited, safeThrough] = [headers.get("x-waited"), headers.get("x-safe-through")];
  return { status, waited, safeThrough, body, tookMs };
}

/** Asks, and resolves when the mirror has looked in vain. */
const getWaiting = (path: string) => api.whileLooking(() => get(path));

it.each(["orders", "orders.csv", "orders.ndjson", "orders/A"])(
  "GET /v1/%s with complete answers as soon as the mirror is complete up to that instant, to the nanosecond",
  async (path) => {
    const refused = { status: 412, safeThrough: BEFORE_T, body: { error: { code: "not_complete" } } };
    await prove(pool, BEFORE_T);
    expect(await get(`${path}?complete=${T}`)).toMatchObject(refused);
    const { answer } = await getWaiting(`${path}?complete=${T}&wait=20`);
    await prove(pool, T);
    const complete = { status: 200, safeThrough: T };
    expect(await answer).toMatchObject(complete);
    expect(await get(`${path}?complete=${T}`)).toMatchObject(complete);
    for (const query of ["complete=yesterday", `complete=${T}&wait=31`, `complete=${T}&complete=${T}`])
      expect([query, (await get(`${path}?${query}`)).status]).toEqual([query, 422]);
  },
);

describe("waiting for an order", () => {
  it("ends with the stored order when nothing newer arrives in time", async () => {
    const answer = await get(`orders/A?updatedAfter=${T}&wait=1`);
    expect(answer).toMatchObject({ status: 200, waited: "timeout", body: { updatedAt: T } });
    expect(answer.tookMs).toBeGreaterThanOrEqual(1_000);
  });

  it("works for an order that does not exist yet, by its externalOrderId", async () => {
    const { answer } = await getWaiting(`orders/shop-1?updatedAfter=1970-01-01T00:00:00Z&wait=20`);
    await add({ reference: "B", externalOrderId: "shop-1" });
    expect(await answer).toMatchObject({ status: 200, waited: "newer", body: { reference: "B" } });
  });

  it("is for the order that is read, not for a newer one that has its reference as externalOrderId", async () => {
    await add({ reference: "B", externalOrderId: "A", updatedAt: AFTER_T });
    const path = `orders/A?updatedAfter=${T}&wait=0`;
    expect(await get(path)).toMatchObject({ waited: "timeout", body: { reference: "A" } });
    await pool.query("update mirror.orders set gone_at = now(), horizon = horizon + 1 where reference = 'A'");
    expect(await get(path)).toMatchObject({ waited: "newer", body: { reference: "B" } });
  });

  it("requires updatedAfter, a time, and at most 30 seconds", async () => {
    const answer = await get("orders/A?wait=20");
    expect(answer).toMatchObject({ status: 200, waited: null });
    expect(answer.tookMs).toBeLessThan(15_000);
    for (const query of ["wait=31", "wait=x", "updatedAfter=yesterday"])
      expect([query, (await get(`orders/A?${query}`)).status]).toEqual([query, 422]);
  });
});

describe("the refusal of what is not complete", () => {
  const why = async () => (await get(`orders?complete=${T}`)).body.error?.message;

  it("says that nothing is proved, or that the history begins later", async () => {
    expect(await why()).toBe("Nothing of live is proved yet. No process polls.");
    await prove(pool, "2026-11-22T00:00:00Z", { history_since: parseInstant("2026-11-21T15:00:00Z") });
    expect(await why()).toBe("The history of live begins at 2026-11-21T15:00:00.000000Z.");
  });

  it("says up to when the mirror is complete, and what is not proved after that", async () => {
    await prove(pool, "2026-11-21T13:00:00Z");
    for (const [since, until] of [
      ["13:10", "13:20"],
      ["13:30", "14:30"],
    ])
      await pool.query(
        `insert into mirror.coverage (source_id, since, until, sweep, proved, fence, requests, orders)
         values ('live', $1, $2, 'delayed', true, 1, 1, 0)`,
        [since, until].map((time) => parseInstant(`2026-11-21T${time}:00Z`)),
      );
    expect(await why()).toBe(
      "live is complete up to 2026-11-21T13:00:00.000000Z. Not proved after that: 2026-11-21T13:00:00.000000Z to 2026-11-21T13:10:00.000000Z, and more in 1 later period. No process polls.",
    );
  });

  it.each<[string, string]>([
    ["update mirror.sources set paused_at = $1", "Polling has been paused since NOON."],
    ["update mirror.leases set expires_at = $1", "No process polls since NOON."],
    [
      "update mirror.poll_state set last_error = 'the provider is away ' || $1",
      "The last poll failed: the provider is away 2026-11-21T12:00:00.000000Z",
    ],
    [
      "update mirror.poll_state set clock_wrong_since = $1, margin_seconds = 300",
      "Nothing is proved since NOON, because the provider's clock and ours differ.",
    ],
    [
      "update mirror.poll_state set list_doubted_at = $1, margin_seconds = 300",
      "Nothing is proved since NOON, because the provider's list omits orders that the mirror has.",
    ],
    [
      "update mirror.poll_state set margin_seconds = 300 where $1::timestamptz is not null",
      "A change is proved 300 s after its time at the earliest.",
    ],
  ])("says what holds it up after %s", async (cause, sentence) => {
    await prove(pool, BEFORE_T);
    await pool.query(
      "insert into mirror.leases (name, holder, fence, expires_at, server) values ('poll:live', 'here', 1, now() + interval '1 minute', mirror.server_identity())",
    );
    const noon = "2026-11-21T12:00:00.000000Z";
    await pool.query(cause, [noon]);
    expect((await why())?.endsWith(` ${sentence.replace("NOON", noon)}`)).toBe(true);
  });
});

describe("many waiting requests", () => {
  function openWait() {
    const news = makeNews(systemClock);
    const orderWait = makeOrderWait({ pool: api.pool, clock: systemClock, news });
    const options = { timeoutMs: 20_000, signal: new AbortController().signal };
    const wait = (client: string, reference = "A") =>
      orderWait({ sourceId: "live", reference, instant: parseInstant(T) }, { client, ...options });
    return { news, wait };
  }

  it("share one statement at a time", async () => {
    const query = vi.spyOn(api.pool, "query");
    const { news, wait } = openWait();
    const waits = Array.from({ length: 400 }, (_, n) => wait(`client ${n % 2}`, `R${n}`));
    await add({ reference: "R399", updatedAt: AFTER_T });
    expect(await waits[399]).toBe(true);
    await news.close();
    expect((await Promise.all(waits)).filter(Boolean)).toHaveLength(1);
    expect(query.mock.calls.length).toBeLessThan(100);
  });

  it("are refused beyond the cap and a half of it for one client, and released when the process closes", async () => {
    const { news, wait } = openWait();
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
