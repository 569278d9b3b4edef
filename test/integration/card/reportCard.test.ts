import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { makeReportCard } from "../../../src/card/reportCard.ts";
import type { CardLine } from "../../../src/card/reportCard.ts";
import { readProviderFigures } from "../../../src/card/reportCard.sql.ts";
import { addSeconds, floorTo, formatInstant, instantFromMillis } from "../../../src/domain/order/instant.ts";
import { advanceLostEvents } from "../../../src/poll/ledger/lostEvents.sql.ts";
import { recordRequests } from "../../../src/poll/ledger/providerRequests.sql.ts";
import { removeHistory, removeUnannounced } from "../../../src/retention/retention.sql.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { removeOlder } from "../../support/mirror/retention.ts";
import { addSource, makeEventBody, makeSnapshot, putIntoInbox, readAt } from "../../support/mirror/orders.ts";
import type { OrderSketch } from "../../support/mirror/orders.ts";
import { emptying } from "../../support/mirror/emptying.ts";

const DAY = 86_400n * 1_000_000_000n;
const NOW = instantFromMillis(Date.now());
const NO_REQUESTS = { sourceId: "live", policy: "order-list", purpose: "poll", requests: 0, refused: 0 };
/** Around the present, in whole days. */
const PERIOD = { since: floorTo(NOW, DAY) - DAY, until: floorTo(NOW, DAY) + 2n * DAY };
const ago = (seconds: number) => formatInstant(addSeconds(NOW, -seconds));

let database: TestDatabase;
beforeAll(async () => {
  database = await makeTestDatabase();
  await addSource(database.pool, "live");
});
afterAll(() => database.drop());
beforeEach(() =>
  database.pool.query(
    emptying(
      "orders history changes pending inbox refetches announced_statuses unannounced_changes lost_events_removed lost_event_cursor event_delays provider_requests provider_days arrivals coverage_breaches provider_behaviour retention_walks",
      { restartsIdentity: true },
    ) +
      `;
     update mirror.sources set created_at = '2026-01-01 00:00+00'`,
  ),
);

async function seeByEvents(orders: readonly OrderSketch[]): Promise<void> {
  const events = orders.map((order) => {
    const eventId = `${order.reference} ${order.status}`;
    return { eventId, body: makeEventBody({ id: eventId, order }) };
  });
  await makeLiveApply(database.pool).applyEvents(await putIntoInbox(database.pool, events));
}

async function see(via: "poll" | "refetch", orders: readonly OrderSketch[]): Promise<void> {
  const time = readAt(addSeconds(NOW, -1), 5);
  await makeLiveApply(database.pool).applyReads({
    sourceId: "live",
    via,
    snapshots: orders.map(makeSnapshot),
    time,
  });
}

const pickedUp = (prefix: string, count: number, secondsAgo: number): OrderSketch[] =>
  Array.from({ length: count }, (_, n) => ({
    reference: `${prefix}${n}`,
    updatedAt: ago(secondsAgo),
    status: "picked_up",
  }));

async function lines(): Promise<Record<string, CardLine>> {
  const figures = await readProviderFigures(database.pool, { sourceId: "live", ...PERIOD });
  const card = makeReportCard({ sourceId: "live", month: "2026-11", period: PERIOD }, figures!);
  return Object.fromEntries(
    card.sections.flatMap((section) => section.lines.map((line) => [line.name, line])),
  );
}

const values = async () =>
  Object.fromEntries(Object.entries(await lines()).map(([name, { value }]) => [name, value]));

describe("the steps of orders", () => {
  it("are counted by what saw them, whichever came first", async () => {
    await seeByEvents(pickedUp("first", 40, 100));
    await see("poll", [
      ...pickedUp("first", 40, 100),
      ...pickedUp("polled", 7, 90),
      ...pickedUp("late", 5, 80),
    ]);
    await seeByEvents(pickedUp("late", 5, 80));
    // Over before the next poll.
    await seeByEvents(pickedUp("short", 3, 70));
    await see(
      "poll",
      pickedUp("short", 3, 60).map((order) => ({ ...order, status: "arrived_for_delivery" })),
    );
    // A single read is no poll.
    await see("refetch", pickedUp("single", 9, 50));
    await advanceLostEvents(database.pool, { sourceId: "live", graceSeconds: 0 });
    expect(await values()).toMatchObject({
      steps_announced: 48,
      steps_polled: 52,
      steps_both: 45,
      steps_unseen: Number(((3 * 7) / 46).toFixed(1)),
      steps_unseen_low: 0,
      events_announced: 48,
      events_late: 5,
      events_lost: 16,
      changes_not_announced: 3,
    });
  });

  it("allow no estimate while too few were seen in both ways", async () => {
    await seeByEvents(pickedUp("A", 2, 100));
    expect((await lines())["steps_unseen"]).toMatchObject({
      value: null,
      text: "not enough data",
    });
  });
});

describe("the figures", () => {
  it("are the bounds that delays do not exceed, and shares of what was expected", async () => {
    await database.pool.query(
      `insert into mirror.event_delays (source_id, hour, late, up_to_seconds, events)
       select 'live', date_trunc('hour', now()), late, bound, events from (values
         (false, 1, 900), (false, 5, 55), (false, 30, 30), (true, 60, 10), (true, 2147483647, 5)) d (late, bound, events)`,
    );
    await database.pool.query(
      `insert into mirror.arrivals (source_id, hour, missed_seconds, seen_seconds, changes)
       select 'live', date_trunc('hour', now()), missed, seen, changes from (values (0, 10, 990), (5, 7, 9), (60, 120, 1)) a (missed, seen, changes)`,
    );
    await database.pool.query(
      "insert into mirror.provider_behaviour (source_id, aspect, value) values ('live', 'clock', '5 to 30 s ahead')",
    );
    const card = await lines();
    expect(card["event_delay_p50_seconds"]).toMatchObject({ value: 1, text: "at most 1 s" });
    expect(card["event_delay_p95_seconds"]?.value).toBe(5);
    expect(card["event_delay_p99_seconds"]?.value).toBe(60);
    expect(card["events_late"]).toMatchObject({ value: 15, text: "15 of 1,000 (1.50 %)" });
    expect(card["commits_late"]).toMatchObject({ value: 10, text: "10 of 1,000 (1.00 %)" });
    expect(card["late_commit_p50_seconds"]?.value).toBe(7);
    expect(card["late_commit_p100_seconds"]?.value).toBe(120);
    expect(card["clock"]?.text).toBe("5 to 30 s ahead");
    await database.pool.query(
      "update mirror.event_delays set up_to_seconds = 2147483647 where up_to_seconds = 5",
    );
    expect((await lines())["event_delay_p95_seconds"]).toMatchObject({ value: null, text: "over 3,600 s" });
  });

  it("include refuted claims, refused requests and withdrawn proofs", async () => {
    // The read is beyond the claim, and does not show it.
    const time = readAt(addSeconds(NOW, 3_000), 5);
    await seeByEvents([{ reference: "A", updatedAt: ago(30), status: "picked_up" }]);
    const snapshots = [makeSnapshot({ reference: "A", updatedAt: ago(90) })];
    await makeLiveApply(database.pool).applyReads({ sourceId: "live", via: "poll", snapshots, time });
    const count = { sourceId: "live", policy: "order-list", purpose: "poll", requests: 200, refused: 3 };
    await recordRequests(database.pool, [count]);
    await database.pool.query(
      `insert into mirror.coverage_breaches (source_id, since, until, kind, reference, version, found_by, detail)
       values ('live', 1, 2, 'missed_change', 'A', 1, 'poll', '')`,
    );
    expect(await values()).toMatchObject({
      claims_refuted: 1,
      requests_sent: 200,
      requests_refused: 3,
      proofs_withdrawn: 1,
    });
  });

  it("stay when the rows that they were counted from are removed", async () => {
    await database.pool.query(
      `insert into mirror.provider_requests (source_id, minute, policy, purpose, requests, refused)
       select 'live', date_trunc('minute', now()) - n * interval '1 minute', 'order-list', 'poll', 10, 1 from generate_series(1, 5) n`,
    );
    await database.pool.query(
      `insert into mirror.unannounced_changes (source_id, reference, status, version, via, found_at, state)
       select 'live', state || n, 'picked_up', n, 'poll', now() - interval '1 hour', state
       from generate_series(1, 6) n cross join unnest(array['lost', 'not_announced', 'late', 'waiting']) state`,
    );
    const before = await values();
    expect(before).toMatchObject({
      events_lost: 6,
      changes_not_announced: 6,
      events_awaited: 6,
      requests_sent: 50,
    });
    await removeOlder(database.pool, [removeUnannounced], { keptDays: 0 });
    expect(await values()).toEqual({ ...before, events_awaited: 0 });
    await database.pool.query("update mirror.provider_requests set minute = minute - interval '32 days'");
    await recordRequests(database.pool, [NO_REQUESTS]);
    const { rows } = await database.pool.query(
      "select figure, sum(amount)::int as amount from mirror.provider_days where figure like 're%' group by 1 order by 1",
    );
    expect(rows).toEqual([
      { figure: "refused", amount: 5 },
      { figure: "requests", amount: 50 },
    ]);
    await database.pool.query("update mirror.provider_days set day = day + 32 where figure like 're%'");
    expect(await values()).toEqual({ ...before, events_awaited: 0 });
  });
});

describe("the remarks", () => {
  const remarks = async () => {
    const figures = await readProviderFigures(database.pool, { sourceId: "live", ...PERIOD });
    return makeReportCard({ sourceId: "live", month: "2026-11", period: PERIOD }, figures!).remarks;
  };

  it("say why the month is not whole", async () => {
    expect(await remarks()).toEqual(["The month is not over."]);
    await database.pool.query("update mirror.sources set created_at = now()");
    expect(await remarks()).toContainEqual(expect.stringMatching(/^The source was configured at /));
    await seeByEvents(pickedUp("A", 2, 100));
    await database.pool.query(
      "update mirror.history set seen_at = now() - interval '2 days' where reference = 'A0'",
    );
    await removeOlder(database.pool, [removeHistory], { keptDays: 1 });
    expect(await remarks()).toContainEqual(
      expect.stringMatching(/^Retention has removed observations before /),
    );
  });
});
