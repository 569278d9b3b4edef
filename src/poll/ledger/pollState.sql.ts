import type { Instant } from "../../domain/order/instant.ts";
import type { PollTrouble } from "../../domain/pollTrouble.ts";
import type { Pool } from "../../database/database.ts";
import { HELD, leaseValues, makeLeaseLostError } from "../../database/leases.sql.ts";
import type { Lease } from "../../database/leases.sql.ts";

/** The polling state of a source. Instants are the provider's time. */
export interface PollState {
  readonly historySince: Instant;
  /** End of the last window of the fast sweep, exclusive: the cursor. */
  readonly polledThrough: Instant;
  /** Every change from historySince to before this is in the mirror. */
  readonly safeThrough: Instant | undefined;
  /** Time since the last cycle ended; undefined if there was none, 0 if it was cut short and its end is unknown. */
  readonly idleMs: number | undefined;
}

/** Undefined if the source was never polled. */
export async function readPollState(pool: Pool, sourceId: string): Promise<PollState | undefined> {
  const { rows } = await pool.query<{
    historySince: string;
    polledThrough: string;
    safeThrough: string | null;
    idleMs: number | null;
  }>(
    `select history_since as "historySince", polled_through as "polledThrough", safe_through as "safeThrough",
       case
         when last_cycle_started_at is null then null
         when last_cycle_ended_at >= last_cycle_started_at
           then greatest(0, extract(epoch from clock_timestamp() - last_cycle_ended_at) * 1000)
         else 0
       end::double precision as "idleMs"
     from mirror.poll_state where source_id = $1 and history_since is not null`,
    [sourceId],
  );
  const [row] = rows;
  return (
    row && {
      historySince: BigInt(row.historySince),
      polledThrough: BigInt(row.polledThrough),
      safeThrough: row.safeThrough === null ? undefined : BigInt(row.safeThrough),
      idleMs: row.idleMs ?? undefined,
    }
  );
}

/** Records where polling of a new source starts; keeps an existing record. Throws LeaseLostError. */
export async function beginPolling(
  pool: Pool,
  lease: Lease,
  state: { sourceId: string; historySince: Instant; polledThrough: Instant },
): Promise<void> {
  const { rows } = await pool.query<{ held: boolean }>(
    `with ${HELD}, begun as (
       insert into mirror.poll_state (source_id, history_since, polled_through)
       select $4, $5::bigint, $6::bigint from held
       on conflict (source_id) do update set
         history_since = excluded.history_since, polled_through = excluded.polled_through
       where poll_state.history_since is null
     )
     select exists (select from held) as held`,
    [...leaseValues(lease), state.sourceId, state.historySince, state.polledThrough],
  );
  if (rows[0]?.held !== true) throw makeLeaseLostError(lease);
}

/**
 * Starts a cycle and records the provider's clock, if the last cycle of any leader started at least `intervalMs` ago by
 * the database's clock; otherwise returns how long to wait. Throws LeaseLostError.
 */
export async function beginCycle(
  pool: Pool,
  lease: Lease,
  { sourceId, intervalMs, providerNow }: { sourceId: string; intervalMs: number; providerNow: Instant },
): Promise<{ readonly waitMs: number }> {
  // A last start in the future means that the clock was set back; that must not stop polling until then.
  const { rows } = await pool.query<{ held: boolean; begun: boolean; waitMs: number | null }>(
    `with ${HELD}, pace as (
       select extract(epoch from last_cycle_started_at - clock_timestamp()) * 1000 + $5::double precision as wait_ms
       from mirror.poll_state where source_id = $4
     ), begun as (
       update mirror.poll_state set last_cycle_started_at = clock_timestamp(),
         provider_clock = $6::bigint, provider_clock_at = clock_timestamp()
       from held, pace
       where source_id = $4 and (wait_ms is null or wait_ms <= 0 or wait_ms > $5::double precision)
       returning source_id
     )
     select exists (select from held) as held, exists (select from begun) as begun,
       (select wait_ms from pace)::double precision as "waitMs"`,
    [...leaseValues(lease), sourceId, intervalMs, providerNow],
  );
  const [row] = rows;
  if (row?.held !== true) throw makeLeaseLostError(lease);
  return { waitMs: row.begun ? 0 : (row.waitMs ?? 0) };
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
  { sourceId, failure }: { sourceId: string; failure: CycleFailure | "cut_short" | null },
): Promise<void> {
  const { sentence = null, trouble = null } = failure === "cut_short" ? {} : (failure ?? {});
  const result = await pool.query(
    `with ${HELD}, ended as (
       -- Each cycle has one end: two looks at the clock would differ by chance.
       select clock_timestamp() as at, $5::text as error, $6::text as trouble from held
     )
     insert into mirror.poll_state as state
       (source_id, last_cycle_ended_at, last_error, trouble, last_error_at, failing_since)
     select $4, at, error, trouble, case when error is not null then at end, case when error is not null then at end
     from ended
     on conflict (source_id) do update set
       last_cycle_ended_at = excluded.last_cycle_ended_at,
       last_error = case when $7::boolean then state.last_error else excluded.last_error end,
       trouble = case when $7 then state.trouble else excluded.trouble end,
       last_error_at = coalesce(excluded.last_error_at, state.last_error_at),
       failing_since = case
         when $7 then state.failing_since
         when excluded.last_error is not null then coalesce(state.failing_since, excluded.failing_since)
       end`,
    [...leaseValues(lease), sourceId, sentence, trouble, failure === "cut_short"],
  );
  if (result.rowCount === 0) throw makeLeaseLostError(lease);
}
