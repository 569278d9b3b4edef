import { makeApply } from "../../../src/apply/apply.ts";
import type { Pool } from "../../../src/database/database.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { deliveryEvents } from "../../../src/wire/events.ts";
import { addSource, makeEventBody, makeSnapshot, putIntoInbox, readAt } from "../mirror/orders.ts";

const MODES = new Map([["live", "live"]] as const);
const BRANCHES = ["Centre", "Harbour", "North"] as const;
const FLEETS = ["Swift Couriers", "Northside Couriers"] as const;
const STEPS = ["created", "assigned", "picked_up", "delivered"] as const;
const MINUTE_MS = 60_000;
const ORDERS = 30;

const iso = (ms: number) => new Date(ms).toISOString();

/** A change of an order: minute `at` before the end, or the read that finds it. */
interface Change {
  readonly n: number;
  readonly step: number;
  readonly atMs: number;
  readonly isLost: boolean;
}

/**
 * An hour of a small shop that ends at `end`, always the same: thirty orders, of which one event was lost and found by a
 * read, and windows that prove the last day.
 */
export async function fillShop(
  pool: Pool,
  { end, setClock }: { end: string; setClock: (instant: string) => Promise<void> },
): Promise<void> {
  const endMs = Date.parse(end);
  await setClock(iso(endMs - 30 * 86_400_000));
  await addSource(pool, "live");
  for (const name of BRANCHES) {
    await pool.query(
      `insert into mirror.branches (source_id, branch_id, reference, name, raw) values ('live', $1, $1, $2, '{}')`,
      [name.toLowerCase(), name],
    );
  }
  const { applyEvents, applyReads } = makeApply({
    events: deliveryEvents,
    pool,
    logger: silentLogger,
    modes: MODES,
  });
  const latest = new Map<number, ReturnType<typeof sketch>>();
  for (const change of listChanges(endMs)) {
    const { n, step, atMs, isLost } = change;
    const order = sketch(change, endMs);
    latest.set(n, order);
    if (isLost) {
      await setClock(iso(atMs + 74_000));
      const time = readAt(parseInstant(iso(atMs + 73_000)), 5);
      await applyReads({ sourceId: "live", via: "poll", snapshots: [makeSnapshot(order)], time });
    } else {
      await setClock(iso(atMs + 180 + ((n * 37 + step * 11) % 90) * 10));
      const eventId = `evt_${String(n * 10 + step).padStart(4, "0")}`;
      await applyEvents(await putIntoInbox(pool, [{ eventId, body: makeEventBody({ id: eventId, order }) }]));
    }
  }
  await setClock(end);
  // A last read confirms what is older than its margin.
  const snapshots = [...latest.values()].map(makeSnapshot);
  await applyReads({ sourceId: "live", via: "verify", snapshots, time: readAt(parseInstant(end), 5) });
  await proveDay(pool);
}

/** All changes of the hour, in their sequence. */
function listChanges(endMs: number): Change[] {
  const changes: Change[] = [];
  for (let n = 1; n <= ORDERS; n += 1) {
    for (let step = 0; step < STEPS.length; step += 1) {
      const atMs = findChange(n, step, endMs);
      if (atMs < endMs - 5_000) changes.push({ n, step, atMs, isLost: n === 12 && step === 1 });
    }
  }
  return changes.toSorted((one, other) => one.atMs - other.atMs);
}

/** When an order takes a step. */
function findChange(n: number, step: number, endMs: number): number {
  const createdMs = endMs - (64 - 2 * n) * MINUTE_MS + n * 1_300;
  return createdMs + step * (9 + (n % 4)) * MINUTE_MS + step * 7_100;
}

function sketch({ n, step, atMs }: Change, endMs: number) {
  const createdMs = endMs - (64 - 2 * n) * MINUTE_MS;
  const at = (minutes: number) => iso(createdMs + minutes * MINUTE_MS);
  const branch = BRANCHES[n % BRANCHES.length] ?? "Centre";
  const name = `DO-${(n * 7_919_113).toString(36).toUpperCase().padStart(8, "7")}`;
  return {
    reference: name,
    status: STEPS[step] ?? "created",
    updatedAt: iso(atMs),
    more: {
      externalOrderId: `shop-${20_480 + n}`,
      branch: { id: branch.toLowerCase(), reference: branch.toLowerCase() },
      fleet: { name: FLEETS[n % FLEETS.length] },
      customer: { firstName: "Ada", phone: "+44 20 7946 0000" },
      pickupTime: at(18),
      deliveryTime: at(n % 7 === 0 ? 26 : 45),
      realPickupTime: step >= 2 ? iso(findChange(n, 2, endMs)) : null,
      realDeliveryTime: step >= 3 ? iso(atMs) : null,
    },
  };
}

/** Proves the last 24 h up to a minute ago in windows of 10 minutes, and has a poller at work. */
async function proveDay(pool: Pool): Promise<void> {
  await pool.query(`
    with clock as (select (extract(epoch from clock_timestamp()) * 1000000000)::bigint - 70000000000 as until)
    insert into mirror.coverage (source_id, since, until, sweep, proved, fence, requests, orders, started_at, ended_at)
    select 'live', until - (n + 1) * 600000000000, until - n * 600000000000, 'proof', true, 1, 2, 5,
      clock_timestamp() - n * interval '10 min' - interval '2 s', clock_timestamp() - n * interval '10 min'
    from clock, generate_series(150, 0, -1) n`);
  await pool.query(`
    insert into mirror.poll_state (source_id, history_since, polled_through, safe_through, last_cycle_started_at,
      last_cycle_ended_at, margin_seconds)
    select 'live', min(since), max(until) + 60000000000, max(until), clock_timestamp() - interval '12 s',
      clock_timestamp() - interval '11 s', 300 from mirror.coverage`);
  await pool.query(`
    insert into mirror.leases values ('poll:live', 'poller-1:42', 1, clock_timestamp() + interval '20 s')`);
  await pool.query("update mirror.sources set event_grace = '0', created_at = now() - interval '30 days'");
  await pool.query(`
    insert into mirror.webhook_hours
    select 'live', date_trunc('hour', clock_timestamp()) - n * interval '1 hour', 'assigned', 'announced', 1, 80 + (n * 37) % 60, 0, 0
    from generate_series(0, 23) n
    union all
    select 'live', date_trunc('hour', min(changed_at)), status, 'lost', 0, count(*), 0, 0
    from mirror.changes where via = 'poll' and revision > 1 group by status`);
  await pool.query(`
    insert into mirror.provider_requests (source_id, minute, policy, purpose, requests)
    select 'live', date_trunc('minute', clock_timestamp()) - n * interval '1 minute', 'order-list', 'live', 2
    from generate_series(0, 60) n`);
}
