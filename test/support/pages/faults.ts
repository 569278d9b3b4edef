import { emptying, announced, lost } from "../mirror/tables.ts";

const NANOS = "(extract(epoch from clock_timestamp()) * 1000000000)::bigint";
const MINUTE = 60_000_000_000n;

const RECORDS =
  "inbox pending history coverage_breaches quarantine refetches poll_state coverage leases " +
  "alerts webhook_hours calls outgoing_deliveries";

/** A source with a leader and polling, complete up to a minute ago, that has received every event. */
export const WELL = `
  ${emptying(RECORDS)};
  delete from mirror.outgoing_endpoints;
  update mirror.sources set created_at = now() - interval '30 days', paused_at = null, resumed_at = null,
    event_grace = '0', receives_events = true;
  insert into mirror.leases (name, holder, fence, expires_at, server)
    values ('poll:live', 'host:1', 1, now() + interval '1 hour', mirror.server_identity());
  insert into mirror.poll_state (source_id, history_since, polled_through, safe_through, last_cycle_ended_at)
    values ('live', ${NANOS} - ${600n * MINUTE}, ${NANOS}, ${NANOS} - ${MINUTE}, now());
  ${announced(100)}`;

/** What looks like trouble and is none: it is over, or was never confirmed. */
const INNOCENT = `${emptying("orders")};
  insert into mirror.history (source_id, reference, via, verdict, refuted, seen_at)
    select 'live', 'DO-1', via::mirror.via, 'refuted', true, now() - age
    from (values ('webhook', interval '25 hours'), ('poll', '0')) as old (via, age), generate_series(1, 3);
  insert into mirror.orders (source_id, reference, first_seen_via, gone_at, version, horizon, observed_at, updated_at,
      history_id, rank, settled, hash, status, raw)
    select 'live', reference, 'poll', now() - age, 5, 6, 6, now(), 0, 0, true, '', 'created', '{}'
    from (values ('FORGED', interval '0'), ('AGED', '8 days')) as gone (reference, age);
  insert into mirror.history (source_id, reference, via, verdict)
    values ('live', 'FORGED', 'webhook', 'applied'), ('live', 'FORGED', 'refetch', 'gone'), ('live', 'AGED', 'poll', 'applied');
  insert into mirror.coverage_breaches (source_id, since, until, kind, reference, version, found_by, found_at, detail)
    values ('live', 1, 2, 'missed_change', 'DO-1', 1, 'poll', now() - interval '25 hours', 'It had none.');
  insert into mirror.quarantine (source_id, inbox_seq, via, reason, state) values ('live', 1, 'webhook', 'not_json', 'dismissed');
  insert into mirror.calls values ('live', 'order-list', now() - interval '11 minutes', 'refused', 6, now());
  update mirror.poll_state set unserved_at = now() - interval '11 minutes', unserved_error = 'status 500',
    unserved_since = history_since, unserved_until = history_since + 2;`;

/** A mirror that is well, with what looks like trouble. */
export const SOUND = `${WELL}; ${INNOCENT}`;

export const poll = (change: string) => `update mirror.poll_state set ${change};`;
const failing = (trouble: string, since: string) =>
  poll(
    `last_error = 'GET /v1/orders failed', trouble = '${trouble}', failing_since = now() - interval '${since}'`,
  );
export const calls = (outcome: string, count: number) => `
  insert into mirror.calls values
    ('live', 'webhook', date_trunc('minute', now()) - interval '3 minutes', '${outcome}', ${count}, now());`;
const endpoint = (columns: string, values: string) =>
  `insert into mirror.outgoing_endpoints (endpoint_id, ${columns}) values ('erp', ${values});`;
const delivery = (state: string, failures: number) => `
  ${endpoint("failures_in_row", String(failures))}
  insert into mirror.outgoing_deliveries
    (endpoint_id, source_id, position, reference, event_type, state, last_attempt_at, created_at)
  values ('erp', 'live', 1, 'R', 'order.new', '${state}', now(), now() - interval '11 minutes');`;

/** A condition, and the statement that makes it hold in a mirror that is well. */
type Fault = readonly [name: string, severity: "critical" | "warning", statement: string];

/** Every condition of a source or an endpoint whose start is known. Those of a group can hold at once: none hides another. */
export const FAULTS: readonly (readonly Fault[])[] = [
  [
    ["NoLeader", "critical", "update mirror.leases set expires_at = now() - interval '3 minutes'"],
    [
      "Gaps",
      "warning",
      `insert into mirror.coverage (source_id, since, until, sweep, proved, fence, requests, orders, started_at, ended_at)
     values ('live', ${NANOS} - ${30n * 1_000_000_000n}, ${NANOS}, 'delayed', true, 1, 1, 0, now(), now() - interval '16 minutes')`,
    ],
    ["EventsWait", "critical", "insert into mirror.pending values (1, 'live', now() - interval '7 minutes')"],
    ["OutgoingFailing", "warning", delivery("pending", 4)],
    ["BadSignatures", "warning", calls("wrong_signature", 21)],
  ],
  [
    ["Paused", "warning", "update mirror.sources set paused_at = now(); delete from mirror.leases"],
    [
      "Quarantine",
      "warning",
      "insert into mirror.quarantine (source_id, via, reason) values ('live', 'webhook', 'not_json')",
    ],
    ["OutgoingGivenUp", "warning", delivery("dead", 0)],
    [
      "EventsNeverCame",
      "critical",
      `delete from mirror.webhook_hours; ${lost(3, "20 minutes", { counted: false })}`,
    ],
  ],
  [
    ["NotPolled", "critical", poll("last_cycle_ended_at = now() - interval '6 minutes'")],
    [
      "OrdersGone",
      "warning",
      `with gone as (
       insert into mirror.orders (source_id, reference, first_seen_via, gone_at, version, horizon, observed_at, updated_at,
         history_id, rank, settled, hash, status, raw)
       values ('live', 'GONE', 'poll', now(), 5, ${NANOS}, ${NANOS}, now(), 0, 0, true, '', 'created', '{}')
       returning source_id, reference
     )
     insert into mirror.history (source_id, reference, via, verdict) select source_id, reference, 'poll', 'applied' from gone`,
    ],
    ["OutgoingLate", "warning", delivery("pending", 0)],
    ["EventsRefused", "critical", calls("not_stored", 1)],
  ],
  [
    ["KeyRefused", "critical", failing("key_refused", "2 minutes")],
    [
      "ClaimsRefuted",
      "warning",
      `insert into mirror.history (source_id, reference, via, verdict, refuted)
     values ('live', 'DO-1', 'webhook', 'refuted', false), ('live', 'DO-1', 'webhook', 'applied', true),
       ('live', 'DO-2', 'webhook', 'stale', true), ('live', 'DO-3', 'webhook', 'applied', false)`,
    ],
    ["OutgoingPaused", "warning", endpoint("paused_at", "now()")],
    ["EventsLost", "warning", lost(2, "20 minutes")],
  ],
  [
    ["ProviderAway", "warning", failing("away", "11 minutes")],
    [
      "Exceptions",
      "warning",
      `insert into mirror.refetches (source_id, reference, reason, claim_version, requested_at)
     values ('live', 'DO-1', 'late_event', 1, now() - interval '31 minutes')`,
    ],
    ["OutgoingNotListed", "warning", endpoint("listed_at", "now() - interval '25 hours'")],
    ["EventsLate", "warning", announced(50, { outcome: "late", upTo: 60, hoursAgo: 0 })],
  ],
  [
    ["ProviderAway", "warning", failing("slow", "11 minutes")],
    [
      "ProofTakenBack",
      "warning",
      `insert into mirror.coverage_breaches (source_id, since, until, kind, reference, version, found_by, detail)
     values ('live', 1, 2, 'missed_change', 'DO-1', 1, 'poll', 'The mirror did not have the order.')`,
    ],
    ["EventsStopped", "critical", announced(900, { upTo: 1 }) + lost(3, "20 minutes")],
  ],
  [
    ["RateLimited", "warning", failing("rate_limited", "2 minutes")],
    ["ListIncomplete", "warning", poll("list_doubted_at = now() - interval '6 minutes'")],
  ],
  [
    [
      "RateLimited",
      "warning",
      "insert into mirror.calls values ('live', 'order-list', now() - interval '3 minutes', 'refused', 6, now())",
    ],
    ["Incomplete", "warning", poll(`safe_through = ${NANOS} - ${70n * MINUTE}`)],
  ],
  [
    ["PollFailing", "warning", failing("other", "11 minutes")],
    ["WindowUnserved", "warning", poll("unserved_until = safe_through + 1")],
  ],
  [["ClocksDisagree", "critical", poll("clock_error_seconds = 86400, clock_wrong_since = now()")]],
];
