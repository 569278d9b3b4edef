import type { Pool } from "../database/database.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { Config } from "../config/config.ts";
import { resolveSince } from "../config/duration.ts";
import type { Clock } from "../process/clock.ts";
import type { Logger } from "../process/telemetry/logger.ts";

// What is removed by age: the rules, the statements of their steps, and a pass of all. Start at `removeAllOld`.

interface RetentionStep {
  readonly removed: number;
  readonly looked: number;
  /** True when nothing more is to be done now. */
  readonly over: boolean;
}

interface StepQuery {
  /** Rows of this instant and later stay, by the database's clock. */
  readonly cutoff: Instant;
  readonly limit: number;
}

/**
 * Removes rows of one table, one step at a time. The next step, even of another process, resumes where this one ended,
 * so that not every pass examines rows that have to stay. Only one process at a time may run a rule.
 */
type RetentionRule = (pool: Pool, query: StepQuery) => Promise<RetentionStep>;

const BIGINT_MAX = "9223372036854775807";
const CUTOFF = "to_timestamp($1::numeric / 1000000000)";

/** A table, and which of its old rows may go. */
interface Aged {
  /** Name of the walk in mirror.retention_walks. */
  readonly walk: string;
  readonly table: string;
  readonly id: string;
  readonly at: string;
  /** CTEs that end with `gone`: what was removed of `old`, the rows of this step that are old enough. */
  readonly removal: string;
  /** Condition on which a row, called `t`, and all rows after it have to wait. */
  readonly waits?: string;
}

/** Decided events that are not open in quarantine, with their bodies. Their decisions stay in the history. */
const EVENTS: Aged = {
  walk: "events",
  table: "mirror.inbox",
  id: "seq",
  at: "received_at",
  removal: `gone as (
    delete from mirror.inbox i using old
    where i.seq = old.id
      and not exists (select from mirror.pending p where p.seq = i.seq)
      and not exists (select from mirror.quarantine q where q.inbox_seq = i.seq and q.state = 'open')
    returning 1
  )`,
};

/**
 * Decided events about no order, in quarantine or not: nobody can find a person in them, so they may not stay
 * indefinitely. An event whose decision is no longer in the history is about no order that is known.
 */
const UNNAMED_EVENTS: Aged = {
  walk: "unnamed events",
  table: "mirror.inbox",
  id: "seq",
  at: "received_at",
  removal: `unnamed as materialized (
    select old.id from old
    where not exists (select from mirror.pending p where p.seq = old.id)
      and not exists (select from mirror.history h where h.inbox_seq = old.id and h.reference is not null)
  ), gone as (
    delete from mirror.inbox where seq = any (array(select id from unnamed)) returning 1
  ), entries as (
    delete from mirror.quarantine where inbox_seq = any (array(select id from unnamed))
  )`,
};

/** Quarantined reads that name no order. */
const UNNAMED_READS: Aged = {
  walk: "unnamed reads",
  table: "mirror.quarantine",
  id: "quarantine_id",
  at: "quarantined_at",
  removal: `gone as (
    delete from mirror.quarantine q using old
    where q.quarantine_id = old.id and q.inbox_seq is null and q.reference is null returning 1
  )`,
};

/**
 * Walked windows, except proved ones that begin before history_since or end beyond safe_through: these two values
 * summarise the others, and mirror.proved shows that to readers. Windows that stay may still move one of the two, when
 * a gap is filled or a backfill meets the history. If a proof is withdrawn, its remainder becomes a separate window, so
 * nothing is removed too early.
 */
const COVERAGE: Aged = {
  walk: "coverage",
  table: "mirror.coverage",
  id: "coverage_id",
  at: "ended_at",
  removal: `gone as (
    delete from mirror.coverage c using old
    where c.coverage_id = old.id
      and (not c.proved or exists (
        select from mirror.poll_state p
        where p.source_id = c.source_id and c.since >= p.history_since and c.until <= p.safe_through))
    returning 1
  )`,
};

/** Changes that an endpoint of outgoing webhooks has not been notified of; `t` is the change. */
const TO_BE_SENT = `
  exists (
    select from mirror.outgoing_endpoints e
    where t.source_id = any (e.source_ids) and e.position < t.position)
  or exists (
    select from mirror.outgoing_endpoints e join mirror.outgoing_deliveries d
      on d.endpoint_id = e.endpoint_id and d.source_id = t.source_id and d.position = t.position
    where d.state = 'pending')`;

/** Changes of the feed: readers that have not read them must start again. */
const CHANGES: Aged = {
  walk: "changes",
  table: "mirror.changes",
  id: "position",
  at: "changed_at",
  removal: `gone as (
    delete from mirror.changes c using old
    where c.position = old.id returning c.source_id, c.position
  ), noted as (
    update mirror.sources s set removed_position = g.position
    from (select source_id, max(position) as position from gone group by source_id) g
    where s.source_id = g.source_id and s.removed_position < g.position
  )`,
  waits: TO_BE_SENT,
};

/**
 * Observations, except each order's current one, which explains its state. Not only the rows of this step: an older row
 * that had to stay, because its order showed it at the time, was replaced by a later one. So examining all later rows
 * finds all replaced ones.
 */
const HISTORY: Aged = {
  walk: "history",
  table: "mirror.history",
  id: "history_id",
  at: "seen_at",
  removal: `concerned as materialized (
    select distinct h.source_id, h.reference
    from old join mirror.history h on h.history_id = old.id where h.reference is not null
  ), unshown as (
    select h.history_id from concerned
    cross join lateral (
      select history_id, seen_at from mirror.history
      where source_id = concerned.source_id and reference = concerned.reference offset 0
    ) h
    left join mirror.orders o
      on o.source_id = concerned.source_id and o.reference = concerned.reference and o.history_id = h.history_id
    where o.reference is null and h.seen_at < ${CUTOFF}
    union all
    select h.history_id from old join mirror.history h on h.history_id = old.id
    where h.reference is null and h.seen_at < ${CUTOFF}
  ), gone as (
    delete from mirror.history where history_id = any (array(select history_id from unshown)) returning 1
  )`,
};

/**
 * An age longer than any statement that applies may run: what has a smaller number than such a row is committed, or
 * never will be.
 */
const SETTLED = "clock_timestamp() - interval '10 minutes'";

/**
 * Removes outgoing webhooks that were delivered. Those that were given up stay, so that a person can send them again.
 */
const removeDelivered: RetentionRule = (pool, { cutoff, limit }) =>
  readStep(
    pool,
    `with batch as materialized (
       select delivery_id, delivered_at from mirror.outgoing_deliveries
       where state = 'delivered' order by delivered_at limit $2
     ), old as (
       select delivery_id from batch where delivered_at < ${CUTOFF}
     ), gone as (
       delete from mirror.outgoing_deliveries d using old
       where d.delivery_id = old.delivery_id and d.state = 'delivered' returning 1
     )`,
    [String(cutoff), limit],
  );

/** Continues after the last examined row; ends before the first row that is not older than `until`, or has to wait. */
function walkOn(
  pool: Pool,
  { cutoff, limit }: StepQuery,
  { walk, table, id, at, removal, waits = "false" }: Aged,
  until = CUTOFF,
): Promise<RetentionStep> {
  return readStep(
    pool,
    `with batch as materialized (
       select ${id} as id, ${at} as at, ${waits} as waits from ${table} t
       where ${id} > coalesce((select position from mirror.retention_walks where walk = $3), 0)
       order by ${id} limit $2
     ), old as materialized (
       select id from batch where id < coalesce((select min(id) from batch where at >= ${until} or waits), ${BIGINT_MAX})
     ), ${removal}, moved as (
       insert into mirror.retention_walks (walk, position)
       select $3, max(id) from old having max(id) is not null
       on conflict (walk) do update set position = excluded.position
     )`,
    [String(cutoff), limit, walk],
  );
}

/** Goes through what stayed behind the walk, from its beginning again whenever it has reached the end. */
function rescan(
  pool: Pool,
  { cutoff, limit }: StepQuery,
  { walk, table, id, at, removal }: Aged,
): Promise<RetentionStep> {
  return readStep(
    pool,
    `with batch as materialized (
       select ${id} as id, ${at} as at from ${table}
       where ${id} > coalesce((select position from mirror.retention_walks where walk = $4), 0)
         and ${id} <= coalesce((select position from mirror.retention_walks where walk = $3), 0)
       order by ${id} limit $2
     ), old as materialized (
       select id from batch where at < ${CUTOFF}
     ), ${removal}, moved as (
       insert into mirror.retention_walks (walk, position)
       select $4, case when count(*) < $2 then 0 else max(id) end from batch
       on conflict (walk) do update set position = excluded.position
     )`,
    [String(cutoff), limit, walk, `${walk} that stayed`],
  );
}

/** `batch` are the examined rows, `old` those old enough, `gone` those removed; $2 is the limit. */
async function readStep(pool: Pool, statement: string, values: readonly unknown[]): Promise<RetentionStep> {
  const { rows } = await pool.query<RetentionStep>(
    `${statement}
     select (select count(*)::int from gone) as removed, (select count(*)::int from batch) as looked,
       (select count(*) from old) < $2 as over`,
    [...values],
  );
  const [row] = rows;
  if (row === undefined) throw new TypeError("an aggregate returns one row");
  return row;
}

/** Windows are not needed beyond their proof: long enough to see what was read the day before. */
const COVERAGE_KEPT_FOR = "P2D";
/** Messages stay long enough to explain one that was given up after three days. */
const OUTGOING_KEPT_FOR = "P7D";
/** Input about no order may hold personal data that no erasure finds: it goes, even if events are kept indefinitely. */
const UNNAMED_KEPT_FOR = "P30D";
/** Rows per statement, with a pause after it: removal must not slow down receiving and applying. */
const STEP_ROWS = 2_000;
const STEP_PAUSE_MS = 200;
/** Steps of rows that had to stay which a pass examines again; it leaves the rest to the next passes. */
const AGAIN_STEPS_MAX = 10;

/** Parts of a pass; `renew` extends its lease, and the pass ends when that returns false. */
interface Pass {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly renew: () => Promise<boolean>;
}

interface Rule {
  readonly what: string;
  readonly rule: RetentionRule;
  /** Null: indefinitely. */
  readonly keptFor: string | null;
  readonly stepsMax?: number;
}
type KeptFor = Pick<Config, "changesKeptFor" | "historyKeptFor" | "eventsKeptFor">;

/** First what every worker may remove; changes before the history that they refer to. */
function listRules({ changesKeptFor, historyKeptFor, eventsKeptFor }: KeptFor): Rule[] {
  const walk = (what: string, keptFor: string | null, aged: Aged, until?: string): Rule => ({
    what,
    keptFor,
    rule: (pool, query) => walkOn(pool, query, aged, until),
  });
  const again = (what: string, keptFor: string | null, aged: Aged): Rule => ({
    what,
    keptFor,
    rule: (pool, query) => rescan(pool, query, aged),
    stepsMax: AGAIN_STEPS_MAX,
  });
  const unnamed = ["input about no order", eventsKeptFor ?? UNNAMED_KEPT_FOR] as const;
  return [
    again("coverage", COVERAGE_KEPT_FOR, COVERAGE),
    walk("coverage", COVERAGE_KEPT_FOR, COVERAGE),
    { what: "delivered outgoing webhooks", keptFor: OUTGOING_KEPT_FOR, rule: removeDelivered },
    walk("changes", changesKeptFor, CHANGES),
    // Old observations that their orders do not show any longer, found by the young ones that replaced them.
    walk("history", historyKeptFor, { ...HISTORY, walk: "superseded history" }, SETTLED),
    walk("history", historyKeptFor, HISTORY),
    again(...unnamed, UNNAMED_EVENTS),
    walk(...unnamed, UNNAMED_EVENTS),
    walk(...unnamed, UNNAMED_READS),
    again("events", eventsKeptFor, EVENTS),
    walk("events", eventsKeptFor, EVENTS),
  ];
}

/**
 * Removes what is older than configured, `stepRows` at a time, until `renew` says that another process does. Returns
 * what each rule examined and removed.
 */
export async function removeAllOld(pass: Pass, config: KeptFor, stepRows = STEP_ROWS): Promise<Removal[]> {
  const removals: Removal[] = [];
  for (const rule of listRules(config)) {
    if (rule.keptFor === null || removals.at(-1)?.isOurs === false) continue;
    const query = { cutoff: resolveSince(rule.keptFor, pass.clock.now()), limit: stepRows };
    removals.push(await removeOld(pass, rule, query));
  }
  return removals;
}

interface Removal extends Pick<Rule, "what"> {
  readonly looked: number;
  readonly removed: number;
  /** False: another process holds the lease. */
  readonly isOurs: boolean;
}

/** Removes what a rule says is old, in small steps with a pause after each. */
async function removeOld(
  { pool, clock, logger, signal, renew }: Pass,
  { what, rule, stepsMax = Infinity }: Rule,
  query: StepQuery,
): Promise<Removal> {
  let removed = 0;
  let looked = 0;
  let isOurs = true;
  for (let steps = 1; isOurs && !signal.aborted; steps += 1) {
    const step = await rule(pool, query);
    removed += step.removed;
    looked += step.looked;
    if (step.over || steps >= stepsMax) break;
    isOurs = await renew();
    if (isOurs) await clock.sleep(STEP_PAUSE_MS, signal);
  }
  if (removed > 0) logger.info({ what, rows: removed }, "removed what was kept long enough");
  return { what, looked, removed, isOurs };
}
