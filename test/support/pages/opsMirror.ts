import { makeLiveApply } from "../mirror/liveApply.ts";
import { announced } from "../mirror/tables.ts";
import { instantFromMillis, formatInstant } from "../../../src/domain/order/instant.ts";
import type { Pool } from "../../../src/database/database.ts";
import { addSource, makeEventBody, makeSnapshot, putIntoInbox, readAt } from "../mirror/orders.ts";

const CUSTOMER = { firstName: "Ada", phone: "+44 20 7946 0000", address: { street: "12 Analytical Row" } };

/** Seconds before now, as the provider writes times. */
export const secondsAgo = (seconds: number) => formatInstant(instantFromMillis(Date.now() - seconds * 1_000));

/**
 * A mirror with a history: the order ORD-1001, with one event lost and found by a poll, one that came twice and one that
 * came too late; twenty other orders; input in quarantine; windows that were read, with a gap.
 */
export async function fillMirror(pool: Pool): Promise<void> {
  await addSource(pool, "live");
  const { applyEvents, applyReads } = makeLiveApply(pool);
  const tell = async (id: string, reference: string, status: string, ago: number, customer = CUSTOMER) => {
    const order = { reference, status, updatedAt: secondsAgo(ago), more: { customer } };
    const body = makeEventBody({ id, type: `order.${status}`, order });
    await applyEvents(await putIntoInbox(pool, [{ eventId: id, body }]));
  };
  const read = async (reference: string, status: string, ago: number) => {
    const snapshot = makeSnapshot({
      reference,
      status,
      updatedAt: secondsAgo(ago),
      more: { customer: CUSTOMER },
    });
    const requestedAt = instantFromMillis(Date.now() - (ago - 20) * 1_000);
    await applyReads({
      sourceId: "live",
      via: "poll",
      snapshots: [snapshot],
      time: readAt(requestedAt, 5),
    });
  };
  await tell("evt_1", "ORD-1001", "created", 600);
  await read("ORD-1001", "assigned", 480);
  await tell("evt_3", "ORD-1001", "picked_up", 300, { ...CUSTOMER, phone: "+44 20 7946 0999" });
  await tell("evt_2", "ORD-1001", "created", 599);
  for (let n = 2; n <= 21; n += 1) await tell(`evt_${n}00`, `ORD-${1000 + n}`, "created", 60 - n);
  const bad = [
    {
      eventId: "evt_bad",
      body: Buffer.from(
        '{"id":"evt_bad","type":"order.created","livemode":true,"data":{"reference":9,"customer":"Ada"}}',
      ),
    },
    { eventId: "evt_text", body: Buffer.from("Ada, 12 Analytical Row") },
  ];
  await applyEvents(await putIntoInbox(pool, bad));
  await pool.query("update mirror.sources set event_grace = '0', created_at = now() - interval '30 days'");
  await pool.query(`${announced(140, { hoursAgo: 0 })}
    insert into mirror.webhook_hours
    select source_id, date_trunc('hour', min(changed_at)), status, 'lost', 0, count(*)
    from mirror.changes where via = 'poll' group by 1, 3`);
  await fillCoverage(pool);
}

/** The provider has set the order back to `created`. */
export async function goBack(pool: Pool, reference: string): Promise<void> {
  await makeLiveApply(pool).applyReads({
    sourceId: "live",
    via: "refetch",
    snapshots: [makeSnapshot({ reference, status: "created", updatedAt: secondsAgo(590) })],
    time: readAt(instantFromMillis(Date.now()), 60),
  });
}

/** Reads 24 h in windows of 10 min, up to 40 s ago; one window is missing, 3 h ago. */
async function fillCoverage(pool: Pool): Promise<void> {
  await pool.query(`
    with clock as (select (extract(epoch from clock_timestamp()) * 1000000000)::bigint - 40000000000 as until)
    insert into mirror.coverage (source_id, since, until, sweep, proved, fence, requests, orders, started_at)
    select 'live', until - (n + 1) * 600000000000, until - n * 600000000000, 'proof', true, 1, 2, 5,
      clock_timestamp() - n * interval '10 min'
    from clock, generate_series(0, 150) n where n <> 18`);
  await pool.query(`
    insert into mirror.poll_state (source_id, history_since, polled_through, safe_through, last_cycle_started_at, last_cycle_ended_at)
    select 'live', min(since), max(until), min(until) filter (where until > clock.at - 12000 * 1000000000::bigint),
      clock_timestamp() - interval '12 s', clock_timestamp() - interval '11 s'
    from mirror.coverage, (select (extract(epoch from clock_timestamp()) * 1000000000)::bigint as at) clock
    group by clock.at`);
}

/**
 * The endpoint `erp` with two messages: the first one waits, and was answered with
 * `answer`; the second one was accepted.
 */
export async function fillOutgoing(pool: Pool, answer: string): Promise<void> {
  await pool.query(
    "insert into mirror.outgoing_endpoints (endpoint_id, source_ids, position) values ('erp', '{live}', 2)",
  );
  await pool.query(
    `insert into mirror.outgoing_deliveries
       (endpoint_id, source_id, position, reference, event_type, state, attempts, last_attempt_at, last_outcome,
        last_attempts, answer, delivered_at)
     values ('erp', 'live', 1, 'ORD-1001', 'order.new', 'pending', 2, now(), 'status 500',
         '[{"at": 1772355600, "outcome": "status 500", "ms": 40}, {"at": 1772355500, "outcome": "ECONNRESET", "ms": 30}]', $1, null),
       ('erp', 'live', 2, 'ORD-1001', 'order.new', 'delivered', 1, now(), 'status 200',
         '[{"at": 1772355600, "outcome": "status 200", "ms": 30}]', null, now())`,
    [answer],
  );
}
