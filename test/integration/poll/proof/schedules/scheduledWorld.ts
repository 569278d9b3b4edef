import pg from "pg";
import { makePool, type Pool } from "../../../../../src/database/database.ts";
import { formatInstant, type Instant } from "../../../../../src/domain/order/instant.ts";
import { requestPeriod } from "../../../../../src/poll/periodRequests.sql.ts";
import { makePoller } from "../../../../../src/poll/poller.ts";
import { requestRefetches } from "../../../../../src/poll/refetches.sql.ts";
import type { Clock } from "../../../../../src/process/clock.ts";
import { makeLiveApply } from "../../../../support/mirror/liveApply.ts";
import { makeTestDatabase } from "../../../../support/servers/database.ts";
import { addSource, makeEventBody, putIntoInbox } from "../../../../support/mirror/orders.ts";
import { makeScheduledProvider, PICKED_UP, showMore, type Make, type Shown } from "./scheduledProvider.ts";
import { logInto } from "../../../../support/run/logInto.ts";
import { makeClockVirtual } from "../../../../support/virtual/virtualTime.ts";

const START = 1_790_000_000n * 1_000_000_000n;
export const INTERVAL_SECONDS = 30;
export const MARGIN_SECONDS = 300;
const DAY_SECONDS = 86_400;
export const nanos = (seconds: number) => BigInt(seconds) * 1_000_000_000n;

/** What the mirror reports about itself and its orders at one instant. */
export interface Look {
  readonly safeThrough: Instant;
  readonly breaches: number;
  /** Events that a read is said to contradict. */
  readonly refuted: number;
  /** Changes in the feed. */
  readonly changes: number;
  readonly served: ReadonlyMap<string, Shown>;
  readonly excepted: ReadonlySet<string | null>;
}

export type ScheduledWorld = ReturnType<typeof makeWorld>;

export type Lane = Awaited<ReturnType<typeof openLane>>;

/** Settings for new connections: without what only matters when the server dies, or to people; and lookups as in pollers. */
const CHEAPER = `do $$ declare setting text; begin
  foreach setting in array array['synchronous_commit', 'track_activities', 'track_counts', 'update_process_title', 'enable_seqscan'] loop
    execute format('alter database %I set %I = off', current_database(), setting);
  end loop;
end $$`;

/**
 * Saves the rows of a source in one table, and restores them from it, except columns that Postgres computes. The two
 * functions name all tables, so that their statements are planned only once.
 */
const KEEPING = `
create table virtual.kept (source_id text, place text, content jsonb);
create index on virtual.kept (source_id, place);
do $make$ declare keeps text; restores text; begin
  select string_agg(format(
      'insert into virtual.kept select kept_source, %1$L, to_jsonb(t) from mirror.%1$I t where %2$s;', name, its), ' '),
    string_agg(format(
      'delete from mirror.%1$I where %2$s; insert into mirror.%1$I (%3$s) overriding system value
       select %3$s from (select content from virtual.kept where source_id = kept_source and place = %1$L) k (kept_row),
         jsonb_populate_record(null::mirror.%1$I, kept_row);', name, its, columns), ' ')
  into keeps, restores
  from (
    select c.relname as name,
      case c.relname when 'leases' then 'name = ''poll:'' || kept_source' else 'source_id = kept_source' end as its,
      (select string_agg(format('%I', attname), ', ') from pg_attribute
       where attrelid = c.oid and attnum > 0 and not attisdropped and attgenerated = '') as columns
    from pg_class c
    where c.relnamespace = 'mirror'::regnamespace and c.relkind = 'r' and c.relname <> 'sources'
      and (c.relname = 'leases' or exists (
        select from pg_attribute where attrelid = c.oid and attname = 'source_id'))
  ) places;
  execute format('create function virtual.keep(kept_source text) returns void language plpgsql as %L',
    'begin delete from virtual.kept where source_id = kept_source; ' || keeps || ' end');
  execute format('create function virtual.restore(kept_source text) returns void language plpgsql as %L',
    'begin ' || restores || ' end');
end $make$`;

const LOOK = `
select (select safe_through from mirror.poll_state where source_id = $1) as safe,
  (select count(*) from mirror.coverage_breaches where source_id = $1)::int as breaches,
  (select count(*) from mirror.history
    where source_id = $1 and via = 'webhook' and (refuted or verdict = 'refuted'))::int as refuted,
  (select count(*) from mirror.changes where source_id = $1)::int as changes,
  coalesce((select json_agg(json_build_array(reference, version::text, status)) from mirror.orders
    where source_id = $1 and gone_at is null), '[]') as served,
  coalesce((select json_agg(reference) from mirror.exceptions where source_id = $1), '[]') as excepted`;

/** Another source: all is proved, also what is to come, and everything else is due. */
const BESIDE = `
with at as (select mirror.nanos_of(clock_timestamp()) as now), state as (
  insert into mirror.poll_state (source_id, history_since, polled_through) select $1, now, now from at
), proved as (
  insert into mirror.coverage (source_id, since, until, sweep, proved, awaits_head, fence, requests, orders)
  select $1, now - ${20n * 86_400n * 1_000_000_000n}, now + ${20n * 86_400n * 1_000_000_000n}, 'proof', proved, not proved, 0, 1, 1
  from at, unnest(array[true, false]) as proved
), asked as (
  insert into mirror.refetches (source_id, reference, reason) select $1, reference, 'asked' from unnest(array['A', 'B']) as reference
), unreadable as (
  insert into mirror.quarantine (source_id, via, reference, reason)
  select $1, 'refetch', reference, 'unreadable_singly' from unnest(array['A', 'B']) as reference
), requested as (
  insert into mirror.period_requests (source_id, kind, since, until, read_down_to)
  select $1, 'verification', now - 1000000000000, now, now from at
), broken as (
  insert into mirror.coverage_breaches (source_id, since, until, kind, reference, version, found_by, detail)
  select $1, now, now + 1, 'missed_change', 'A', now, 'poll', 'a breach' from at
)
insert into mirror.orders (source_id, reference, first_seen_via, version, horizon, observed_at, updated_at, history_id, rank, settled, hash,
  status, raw)
select $1, reference, 'poll', now, now, now, clock_timestamp(), 0, 0, true, '', 'beside', '{}'
from at, unnest(array['A', 'B', 'C', 'D', 'E', 'INVENTED']) as reference`;

const LOOK_BESIDE =
  "poll_state coverage refetches quarantine period_requests coverage_breaches orders history changes"
    .split(" ")
    .map((table) => `select '${table}', to_jsonb(t) from mirror.${table} t where source_id = $1`)
    .join(" union all ");

/** A database with its own clock, for one schedule after another; each has its own source. */
export async function openLane(name: string) {
  const database = await makeTestDatabase();
  await makeClockVirtual(database.pool);
  await database.pool.query(CHEAPER);
  await database.pool.query(KEEPING);
  // As of pollers, except that plans are kept: here they are always made for tables without statistics.
  const pool = makePool({
    url: database.url,
    purpose: "poll",
    max: 2,
    statementTimeoutMs: 30_000,
    plansForAnyValues: true,
  });
  const backup = await openBackup(database.url);
  const time = makeLaneTime(pool);
  let schedules = 0;
  return {
    async begin(make: Make) {
      const sourceId = `${name}-${(schedules += 1)}`;
      await addSource(pool, sourceId);
      await time.advance(DAY_SECONDS);
      await addSource(pool, `${sourceId}-beside`);
      await pool.query(BESIDE, [`${sourceId}-beside`]);
      return makeWorld({ pool, backup, time, sourceId, make });
    },
    async close() {
      await backup.end();
      await pool.end();
      await database.drop();
    },
  };
}

/** A connection whose writes fire no triggers. */
async function openBackup(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, options: "-c session_replication_role=replica" });
  await client.connect();
  return client;
}

/** Time moves only by `advance`. */
function makeLaneTime(pool: Pool) {
  let instant = START;
  let sleepers: { readonly until: bigint; readonly wake: () => void }[] = [];
  const clock: Clock = {
    now: () => instant,
    monotonicMs: () => Number(instant - START) / 1e6,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        sleepers.push({ until: instant + BigInt(Math.ceil(ms)) * 1_000_000n, wake: resolve });
        signal?.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
      }),
  };
  return {
    clock,
    async advance(seconds: number) {
      instant += nanos(seconds);
      const due = sleepers.filter(({ until }) => until <= instant);
      sleepers = sleepers.filter(({ until }) => until > instant);
      for (const { wake } of due) wake();
      await pool.query("select setval('virtual.micros', $1)", [instant / 1_000n]);
    },
  };
}

/** One source of a mirror, in virtual time, with its own provider. */
function makeWorld(lane: {
  pool: Pool;
  backup: pg.Client;
  time: ReturnType<typeof makeLaneTime>;
  sourceId: string;
  make: Make;
}) {
  const { pool, backup, sourceId } = lane;
  const { clock } = lane.time;
  const { now } = clock;
  const provider = makeScheduledProvider(clock, lane.make);
  const apply = makeLiveApply(pool, sourceId);
  const run = async (text: string) => void (await pool.query(text, [sourceId]));
  const failedTasks: string[] = [];
  const logger = logInto((line) => void (line.includes('"task":') && failedTasks.push(line)));
  let processes = 0;
  let events = 0;
  return {
    provider,
    /** What leader tasks have failed of so far, as logged: no fault of a schedule explains one. */
    failedTasks,
    now,
    advance: (seconds: number) => lane.time.advance(seconds),
    /** A poller as in a separate process. */
    startPoller: () =>
      makePoller({
        source: { sourceId },
        client: provider,
        pool,
        apply,
        clock,
        logger,
        intervalSeconds: INTERVAL_SECONDS,
        marginSeconds: MARGIN_SECONDS,
        backfillSince: "PT3H",
        pace: "cycle",
        holder: `process ${(processes += 1)}`,
        rateWindowMs: 0,
        // Time passes in steps without renewals between them; a process that ends releases the lease.
        leaseTtlMs: 30 * DAY_SECONDS * 1_000,
      }),
    /** Ends the lease of its holder, as time does when a process was killed. */
    endLease: () => run("update mirror.leases set expires_at = '-infinity' where name = 'poll:' || $1"),
    /** Applies an event of such a change. */
    async deliver(reference: string, { status, updatedAt }: Shown) {
      const eventId = `evt_${sourceId}_${(events += 1)}`;
      const more = showMore(lane.make, reference, formatInstant(PICKED_UP));
      const order = { reference, status, updatedAt: formatInstant(updatedAt), more };
      const body = makeEventBody({ id: eventId, created: formatInstant(now()), order });
      await apply.applyEvents(await putIntoInbox(pool, [{ sourceId, eventId, body }]));
    },
    requestVerification: () =>
      requestPeriod(pool, {
        kind: "verification",
        sourceId,
        since: now() - nanos(DAY_SECONDS),
        until: now(),
      }),
    /** A person wants these orders to be read again. */
    askAbout: (references: readonly string[]) =>
      requestRefetches(pool, { sourceId, references, reason: "asked" }),
    async look(): Promise<Look> {
      type Row = Omit<Look, "safeThrough" | "served" | "excepted"> & {
        safe: string | null;
        served: readonly (readonly [string, string, string])[];
        excepted: readonly (string | null)[];
      };
      const { rows } = await pool.query<Row>({ name: "look", text: LOOK, values: [sourceId] });
      const { safe, served, excepted, ...counts } = rows[0]!;
      const orders = served.map(
        ([one, version, status]) => [one, { updatedAt: BigInt(version), status }] as const,
      );
      return {
        ...counts,
        safeThrough: BigInt(safe ?? 0),
        served: new Map(orders),
        excepted: new Set(excepted),
      };
    },
    /** All that the mirror has of another source, with the same references: nothing that is done to this one shows there. */
    async lookBeside(): Promise<unknown> {
      const text = `${LOOK_BESIDE} order by 1, 2`;
      return (await pool.query({ name: "look-beside", text, values: [`${sourceId}-beside`] })).rows;
    },
    /** Saves the source's part of the database, for `restore`. */
    keep: async () => void (await backup.query("select virtual.keep($1)", [sourceId])),
    /** Returns the database to the last `keep`: a failover has lost the commits since, or a backup was restored. */
    async restore() {
      await backup.query("select virtual.restore($1)", [sourceId]);
      // As after any restoration, the lease was taken on another server.
      await backup.query("update mirror.leases set server = 'another' where name = 'poll:' || $1", [
        sourceId,
      ]);
    },
  };
}
