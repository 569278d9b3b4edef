import type { Instant } from "../domain/order/instant.ts";
import type { PollTrouble } from "../domain/pollTrouble.ts";
import type { Mode } from "../domain/source/orderSource.ts";
import type { Window } from "../domain/window/window.ts";
import { queryInstants, type Pool } from "../database/database.ts";
import {
  HELD,
  leaseValues,
  makeLeaseLostError,
  writeUnderLease,
  type Lease,
} from "../database/leases.sql.ts";

/** The polling state of a source. Instants are the provider's time. */
export interface PollState {
  readonly historySince: Instant;
  /** End of the last window of the head sweep, exclusive: the cursor. */
  readonly polledThrough: Instant;
  /** Every change from historySince to before this is in the mirror; null until the first proof. */
  readonly safeThrough: Instant | null;
  /** The provider's list omitted orders that the mirror has: nothing else is proved until that is explained. */
  readonly isListDoubted: boolean;
}

/** Records where polling of a new source starts; keeps an existing record. Throws LeaseLostError. */
export async function beginPolling(
  pool: Pool,
  lease: Lease,
  state: { sourceId: string; historySince: Instant; polledThrough: Instant },
): Promise<void> {
  await writeUnderLease(
    pool,
    lease,
    `begun as (
       insert into mirror.poll_state (source_id, history_since, polled_through)
       select $4, $5::bigint, $6::bigint from held
       on conflict (source_id) do update set
         history_since = excluded.history_since, polled_through = excluded.polled_through
       where poll_state.history_since is null
     )`,
    [state.sourceId, state.historySince, state.polledThrough],
  );
}

/** The state with which a cycle begins. */
export interface CycleState extends PollState {
  /** Somebody waits for a read or a comparison of a period. */
  readonly hasRequests: boolean;
  /** Single reads of orders are due. */
  readonly areReadsDue: boolean;
  /** Walked windows await their head sweep. */
  readonly hasWalked: boolean;
}

/** The state of a source that may never have been polled. */
export type NewCycleState = Omit<CycleState, "historySince" | "polledThrough"> & {
  readonly [Key in "historySince" | "polledThrough"]: Instant | null;
};

/**
 * - `begun`: the cycle may read.
 * - `not_due`: the last cycle of any leader started or ended too recently.
 * - `paused`: a person has paused the source.
 * - `foreign`: the source belongs to another mode or provider.
 */
export type CycleBegin =
  | { readonly kind: "begun"; readonly state: NewCycleState }
  | { readonly kind: "not_due"; readonly waitMs: number }
  | { readonly kind: "paused" | "foreign" };

const BEGIN_CYCLE = `with ${HELD}, source as (
       select case
         when mode is distinct from coalesce($8, mode) or provider <> $9 then 'foreign'
         when paused_at is not null then 'paused'
       end as refused
       from mirror.sources where source_id = $4
     ), pace as (
       select (
         select extract(epoch from greatest(last_cycle_started_at + $5::double precision * interval '1 millisecond',
           last_cycle_ended_at + $7::double precision * interval '1 millisecond') - clock_timestamp()) * 1000
         from mirror.poll_state where source_id = $4)::double precision as wait_ms
     ), begun as (
       insert into mirror.poll_state (source_id, last_cycle_started_at, margin_seconds, interval_seconds)
       select $4, clock_timestamp(), $6, $5::double precision / 1000 from held, source, pace
       -- A last start in the future means that the clock was set back; that must not stop polling until then.
       where source.refused is null and (wait_ms is null or wait_ms <= 0 or wait_ms > greatest($5, $7))
       on conflict (source_id) do update set last_cycle_started_at = excluded.last_cycle_started_at,
         margin_seconds = excluded.margin_seconds, interval_seconds = excluded.interval_seconds
       returning true as "isDue", history_since as "historySince", polled_through as "polledThrough", safe_through as "safeThrough",
         list_doubted_at is not null as "isListDoubted"
     )
     select mirror.nanos_of(clock_timestamp()) as "databaseNow", exists (select from held) as held,
       (select refused from source) as refused, (select wait_ms from pace) as "waitMs", begun.*,
       exists (select from mirror.period_requests r
         where r.source_id = $4 and r.state in ('requested', 'running')) as "hasRequests",
       exists (select from mirror.refetches f
         where f.source_id = $4 and f.next_attempt_at <= clock_timestamp()) as "areReadsDue",
       exists (select from mirror.coverage c where c.source_id = $4 and c.awaits_head) as "hasWalked"
     from (select) as one left join begun on true`;

/**
 * Starts a cycle if the last cycle of any leader started at least `intervalMs` ago and ended `quietMs` ago by the
 * database's clock, and the source is not paused and still of this mode and provider. Also returns the database's time.
 * Throws LeaseLostError.
 */
export async function beginCycle(
  pool: Pool,
  lease: Lease,
  cycle: {
    sourceId: string;
    mode?: Mode | undefined;
    provider?: string | undefined;
    intervalMs: number;
    quietMs: number;
    marginSeconds: number;
  },
): Promise<CycleBegin & { readonly databaseNow: Instant }> {
  const { sourceId, mode, provider, intervalMs, quietMs, marginSeconds } = cycle;
  type Row = NewCycleState & {
    databaseNow: Instant;
    held: boolean;
    refused: "paused" | "foreign" | null;
    waitMs: number | null;
    isDue: boolean | null;
  };
  const values = [sourceId, intervalMs, marginSeconds, quietMs, mode ?? null, provider ?? null];
  const [row] = await queryInstants<Row>(pool, BEGIN_CYCLE, [...leaseValues(lease), ...values]);
  if (row?.held !== true) throw makeLeaseLostError(lease);
  const { databaseNow, held: _held, refused, waitMs, isDue, ...state } = row;
  if (refused !== null) return { kind: refused, databaseNow };
  if (isDue === null) return { kind: "not_due", waitMs: waitMs ?? 0, databaseNow };
  return { kind: "begun", state, databaseNow };
}

/**
 * Notes the window that the list could not serve, and what it answered. Windows that touch are one period, because an
 * order at a bound spoils both, unless the earlier one was proved meanwhile. Throws LeaseLostError.
 */
export async function noteUnserved(
  pool: Pool,
  lease: Lease,
  { sourceId, window, error }: { sourceId: string; window: Window; error: string },
): Promise<void> {
  await writeUnderLease(
    pool,
    lease,
    `noted as (
       update mirror.poll_state p set unserved_error = $7,
         unserved_since = case when touches then least(unserved_since, $5::bigint) else $5::bigint end,
         unserved_until = case when touches then greatest(unserved_until, $6::bigint) else $6::bigint end,
         unserved_at = case when touches then unserved_at else clock_timestamp() end
       from held, (
         select coalesce(unserved_since <= $6::bigint and unserved_until >= $5::bigint, false) and not exists (
           select from mirror.proved p
           where p.source_id = $4 and p.since <= unserved_since and p.until >= unserved_until) as touches
         from mirror.poll_state where source_id = $4
       ) before
       where p.source_id = $4
     )`,
    [sourceId, window.since, window.until, error],
  );
}

/** Why a cycle failed, as a sentence and by kind. */
export interface CycleFailure {
  readonly sentence: string;
  readonly trouble: PollTrouble;
}

/**
 * Records the end of a cycle, even before polling could start: with its failure, with null if it did not fail, or with
 * `cut_short` if it was aborted, which leaves earlier trouble unchanged. Throws LeaseLostError.
 */
export async function endCycle(
  pool: Pool,
  lease: Lease,
  {
    sourceId,
    failure,
    clockErrorSeconds = null,
  }: { sourceId: string; failure: CycleFailure | "cut_short" | null; clockErrorSeconds?: number | null },
): Promise<void> {
  const { sentence = null, trouble = null } = failure === "cut_short" ? {} : (failure ?? {});
  const { rows } = await pool.query(
    `with ${HELD}, ended as (
       -- Each cycle has one end: two looks at the clock would differ by chance.
       select clock_timestamp() as at, $5::text as error, $6::text as trouble from held
     )
     insert into mirror.poll_state as state
       (source_id, last_cycle_ended_at, last_error, trouble, last_error_at, failing_since, clock_error_seconds, clock_wrong_since)
     select $4, at, error, trouble, case when error is not null then at end, case when error is not null then at end,
       $8::double precision, case when $8 is not null then at end
     from ended
     on conflict (source_id) do update set
       last_cycle_ended_at = excluded.last_cycle_ended_at,
       last_error = case when $7::boolean then state.last_error else excluded.last_error end,
       trouble = case when $7 then state.trouble else excluded.trouble end,
       clock_error_seconds = excluded.clock_error_seconds,
       clock_wrong_since = case
         when excluded.clock_wrong_since is not null then coalesce(state.clock_wrong_since, excluded.clock_wrong_since) end,
       last_error_at = coalesce(excluded.last_error_at, state.last_error_at),
       failing_since = case
         when $7 then state.failing_since
         when excluded.last_error is not null then coalesce(state.failing_since, excluded.failing_since)
       end
     returning true`,
    [...leaseValues(lease), sourceId, sentence, trouble, failure === "cut_short", clockErrorSeconds],
  );
  if (rows.length === 0) throw makeLeaseLostError(lease);
}
