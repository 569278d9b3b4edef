import type { Pool } from "../database/database.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { Config } from "../config/config.ts";
import { resolveSince } from "../config/duration.ts";
import type { Clock } from "../process/clock.ts";
import type { Logger } from "../process/telemetry/logger.ts";

// What is removed by age: the rules, the statement of their steps, and a pass of all. Start at `removeAllOld`.

const BIGINT_MAX = "9223372036854775807";
const CUTOFF = "to_timestamp($1::numeric / 1000000000)";

/** A table, and which of its old rows may go. */
interface Aged {
  readonly table: string;
  readonly id: string;
  readonly at: string;
  /** CTEs that end with `gone`: what was removed of `old`, the rows of this step that are old enough. */
  readonly removal: string;
  /** Condition on which a row, called `t`, and all rows after it have to wait. */
  readonly waits?: string;
}

/**
 * Decided events, with their bodies and their entries in quarantine: nothing could process such an entry again. Their
 * decisions stay in the history.
 */
const eventsThat = (condition: string): Aged => ({
  table: "mirror.inbox",
  id: "seq",
  at: "received_at",
  removal: `gone as (
    delete from mirror.inbox where seq = any (array(
      select old.id from old
      where not exists (select from mirror.pending p where p.seq = old.id) and not exists (${condition}))) returning seq
  ), entries as (
    delete from mirror.quarantine where inbox_seq = any (array(select seq from gone))
  )`,
});

/** Events that are not open in quarantine. */
const EVENTS = eventsThat("select from mirror.quarantine q where q.inbox_seq = old.id and q.state = 'open'");

/**
 * Events about no order, in quarantine or not: nobody can find a person in them, so they may not stay indefinitely. An
 * event whose decision is no longer in the history is about no order that is known.
 */
const UNNAMED_EVENTS = eventsThat(
  "select from mirror.history h where h.inbox_seq = old.id and h.reference is not null",
);

/** Quarantined reads that name no order. */
const UNNAMED_READS: Aged = {
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

/** Observations, except each order's current one, which explains its state. */
const HISTORY: Aged = {
  table: "mirror.history",
  id: "history_id",
  at: "seen_at",
  removal: `gone as (
    delete from mirror.history h using old
    where h.history_id = old.id and not exists (
      select from mirror.orders o
      where o.source_id = h.source_id and o.reference = h.reference and o.history_id = h.history_id)
    returning 1
  )`,
};

/** The rows of one step that were examined and removed. */
interface Step {
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
 * Takes one step of a walk through a table, after the last row that any process has examined, so that a pass does not
 * examine again what has to stay. Ends before the first row that is not old, or has to wait.
 */
const walkOn = (
  pool: Pool,
  walk: string,
  { table, id, at, removal, waits = "false" }: Aged,
  query: StepQuery,
) =>
  takeStep(
    pool,
    `with batch as materialized (
       select ${id} as id, ${at} as at, ${waits} as waits from ${table} t
       where ${id} > coalesce((select position from mirror.retention_walks where walk = $3), 0)
       order by ${id} limit $2
     ), old as materialized (
       select id from batch where id < coalesce((select min(id) from batch where at >= ${CUTOFF} or waits), ${BIGINT_MAX})
     ), ${removal}, moved as (
       insert into mirror.retention_walks (walk, position)
       select $3, max(id) from old having max(id) is not null
       on conflict (walk) do update set position = excluded.position
     )`,
    [String(query.cutoff), query.limit, walk],
  );

/**
 * Removes outgoing webhooks that were delivered. Those that were given up stay, so that a person can send them again.
 */
const removeDelivered = (pool: Pool, { cutoff, limit }: StepQuery) =>
  takeStep(
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

/** `batch` are the examined rows, `old` those old enough, `gone` those removed; $2 is the limit. */
async function takeStep(pool: Pool, statement: string, values: readonly unknown[]): Promise<Step> {
  const { rows } = await pool.query<Step>(
    `${statement}
     select (select count(*)::int from gone) as removed, (select count(*)::int from batch) as looked,
       (select count(*) from old) < $2 as over`,
    [...values],
  );
  const [row] = rows;
  if (row === undefined) throw new TypeError("an aggregate returns one row");
  return row;
}

/**
 * Lets walks that began a day ago begin again: what had to stay may go now. An order may show another observation, an
 * event may be decided, a gap closed.
 */
async function beginWalksAgain(pool: Pool): Promise<void> {
  await pool.query(
    `update mirror.retention_walks set position = 0, begun_at = clock_timestamp()
     where begun_at < clock_timestamp() - interval '1 day'`,
  );
}

/** Windows are not needed beyond their proof: long enough to see what was read the day before. */
const COVERAGE_KEPT_FOR = "P2D";
/** Messages stay long enough to explain one that was given up after its last attempt. */
const OUTGOING_KEPT_FOR = "P7D";
/** Input about no order may hold personal data that no erasure finds: it goes, even if events are kept indefinitely. */
const UNNAMED_KEPT_FOR = "P30D";
/** Rows per statement, with a pause after it: removal must not slow down receiving and applying. */
const STEP_ROWS = 2_000;
const STEP_PAUSE_MS = 200;

/** Parts of a pass; `renew` extends its lease, and the pass ends when that returns false. */
interface Pass {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly renew: () => Promise<boolean>;
}

interface Rule {
  /** Names what it removes, and its walk in mirror.retention_walks. */
  readonly what: string;
  /** Null: indefinitely. */
  readonly keptFor: string | null;
  readonly step: (pool: Pool, query: StepQuery) => Promise<Step>;
}
type KeptFor = Pick<Config, "changesKeptFor" | "historyKeptFor" | "eventsKeptFor">;

/** First what every worker may remove; changes before the history that they refer to. */
function listRules({ changesKeptFor, historyKeptFor, eventsKeptFor }: KeptFor): Rule[] {
  const walk = (what: string, keptFor: string | null, aged: Aged): Rule => ({
    what,
    keptFor,
    step: (pool, query) => walkOn(pool, what, aged, query),
  });
  const unnamedKeptFor = eventsKeptFor ?? UNNAMED_KEPT_FOR;
  return [
    walk("coverage", COVERAGE_KEPT_FOR, COVERAGE),
    { what: "delivered outgoing webhooks", keptFor: OUTGOING_KEPT_FOR, step: removeDelivered },
    walk("changes", changesKeptFor, CHANGES),
    walk("history", historyKeptFor, HISTORY),
    walk("events about no order", unnamedKeptFor, UNNAMED_EVENTS),
    walk("reads about no order", unnamedKeptFor, UNNAMED_READS),
    walk("events", eventsKeptFor, EVENTS),
  ];
}

interface Removal extends Pick<Rule, "what"> {
  readonly looked: number;
  readonly removed: number;
  /** False: another process holds the lease. */
  readonly isOurs: boolean;
}

/**
 * Removes what is older than configured, `stepRows` at a time, until `renew` says that another process does. Returns
 * what each rule examined and removed.
 */
export async function removeAllOld(pass: Pass, config: KeptFor, stepRows = STEP_ROWS): Promise<Removal[]> {
  const removals: Removal[] = [];
  await beginWalksAgain(pass.pool);
  for (const rule of listRules(config)) {
    if (rule.keptFor === null || removals.at(-1)?.isOurs === false) continue;
    const query = { cutoff: resolveSince(rule.keptFor, pass.clock.now()), limit: stepRows };
    removals.push(await removeOld(pass, rule, query));
  }
  return removals;
}

/** Removes what a rule says is old, in small steps with a pause after each. */
async function removeOld(
  { pool, clock, logger, signal, renew }: Pass,
  { what, step }: Rule,
  query: StepQuery,
): Promise<Removal> {
  let [looked, removed, isOurs] = [0, 0, true];
  while (isOurs && !signal.aborted) {
    const done = await step(pool, query);
    looked += done.looked;
    removed += done.removed;
    if (done.over) break;
    isOurs = await renew();
    if (isOurs) await clock.sleep(STEP_PAUSE_MS, signal);
  }
  if (removed > 0) logger.info({ what, rows: removed }, "removed what was kept long enough");
  return { what, looked, removed, isOurs };
}
