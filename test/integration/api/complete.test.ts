import { beforeEach, describe, expect, it } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { insertOrder, orderText, addSource } from "../../support/mirror/orders.ts";
import { prove } from "../../support/mirror/tables.ts";
import { startTestApi } from "../../support/mirror/served.ts";

const T = "2026-11-21T14:00:00Z";
const BEFORE_T = "2026-11-21T13:59:59.999999999Z";

const api = await startTestApi();
const { pool } = api.database;
await addSource(pool, "live");
await insertOrder(pool, "live", orderText({ reference: "A" }));
beforeEach(() =>
  pool.query(
    `delete from mirror.poll_state; delete from mirror.coverage; delete from mirror.leases;
     update mirror.sources set paused_at = null`,
  ),
);

async function get(path: string) {
  const response = await fetch(`${api.url}/v1/${path}`);
  const text = await response.text();
  const error = response.ok
    ? undefined
    : (JSON.parse(text) as { error: { code: string; message: string } }).error;
  return { status: response.status, safeThrough: response.headers.get("x-safe-through"), error };
}

/** Asks, and resolves when the mirror has looked in vain. */
const getWaiting = (path: string) => api.whileLooking(() => get(path));

const READS = ["orders", "orders.csv", "orders.ndjson", "orders/A"];
const refused = { status: 412, error: { code: "not_complete" } };

describe.each(READS)("GET /v1/%s with complete", (path) => {
  it("answers when the mirror is complete up to that instant, to the nanosecond", async () => {
    await prove(pool, T);
    expect(await get(`${path}?complete=${T}`)).toMatchObject({ status: 200, safeThrough: T });
    await prove(pool, BEFORE_T);
    expect(await get(`${path}?complete=${T}`)).toMatchObject({ ...refused, safeThrough: BEFORE_T });
  });

  it("answers as soon as the mirror is complete", async () => {
    await prove(pool, BEFORE_T);
    const { answer } = await getWaiting(`${path}?complete=${T}&wait=20`);
    await prove(pool, T);
    expect(await answer).toMatchObject({ status: 200, safeThrough: T });
  });

  it.each(["complete=yesterday", `complete=${T}&wait=31`, `complete=${T}&complete=${T}`])(
    "refuses %s",
    async (query) => {
      expect((await get(`${path}?${query}`)).status).toBe(422);
    },
  );
});

describe("the refusal", () => {
  it("comes after the wait", async () => {
    const startedMs = performance.now();
    expect(await get(`orders?complete=${T}&wait=1`)).toMatchObject(refused);
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(1_000);
  });

  const why = async () => (await get(`orders?complete=${T}`)).error?.message;

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

  it.each<[string, string, string]>([
    [
      "a pause",
      "update mirror.sources set paused_at = '2026-11-21 12:00+00'",
      "Polling has been paused since 2026-11-21T12:00:00.000000Z.",
    ],
    [
      "a leader that has left",
      "update mirror.leases set expires_at = '2026-11-21 12:30+00'",
      "No process polls since 2026-11-21T12:30:00.000000Z.",
    ],
    [
      "a failure",
      "update mirror.poll_state set last_error = 'the provider is away'",
      "The last poll failed: the provider is away",
    ],
    [
      "clocks that differ",
      "update mirror.poll_state set clock_wrong_since = '2026-11-21 12:00+00', margin_seconds = 300",
      "Nothing is proved since 2026-11-21T12:00:00.000000Z, because the provider's clock and ours differ.",
    ],
    [
      "a list in doubt",
      "update mirror.poll_state set list_doubted_at = '2026-11-21 12:00+00', margin_seconds = 300",
      "Nothing is proved since 2026-11-21T12:00:00.000000Z, because the provider's list omits orders that the mirror has.",
    ],
    [
      "the margin",
      "update mirror.poll_state set margin_seconds = 300",
      "A change is proved 300 s after its time at the earliest.",
    ],
  ])("says what holds it up: %s", async (_, cause, sentence) => {
    await prove(pool, BEFORE_T);
    await pool.query(
      "insert into mirror.leases (name, holder, fence, expires_at, server) values ('poll:live', 'here', 1, now() + interval '1 minute', mirror.server_identity())",
    );
    await pool.query(cause);
    expect(await why()).toMatch(new RegExp(`${sentence.replaceAll(".", "\\.")}$`));
  });
});
