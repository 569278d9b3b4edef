import { UnavailableError } from "../domain/errors.ts";
import type { Pool } from "../database/database.ts";
import { sqlState } from "../database/databaseErrors.ts";
import { inTransaction } from "../database/transaction.ts";

/** How much of an order is, or was, kept where. */
export interface ErasureCount {
  /** Observations in the history with content. */
  readonly observations: number;
  /** Events in the inbox. */
  readonly events: number;
  /** Input in quarantine that names the order. */
  readonly quarantined: number;
}

interface Subject {
  readonly sourceId: string;
  readonly reference: string;
}

/** Batches wait as long as an erasure does; beyond this it gives way. */
const LOCK_TIMEOUT_MS = 5_000;
const LOCK_NOT_AVAILABLE = "55P03";

/** What stands in an inbox row in place of a body that was erased. */
export const ERASED_BODY = '{"erased":true}';

// Input that could not be read has no reference of its own; the quotes keep a short one from being found in others.
const PARKED = `
  select q.quarantine_id, q.inbox_seq from mirror.quarantine q left join mirror.inbox i on i.seq = q.inbox_seq
  where q.source_id = $1 and (q.reference = $2
    or q.reference is null and position(convert_to('"' || $2 || '"', 'UTF8') in coalesce(q.raw, i.body)) > 0)`;

const EVENTS = `
  select inbox_seq from mirror.history
  where source_id = $1 and reference = $2 and inbox_seq is not null
  union select inbox_seq from parked where inbox_seq is not null`;

/** What an erasure of this order would concern now. */
export async function countErasure(pool: Pool, { sourceId, reference }: Subject): Promise<ErasureCount> {
  const { rows } = await pool.query<ErasureCount>(
    `with parked as (${PARKED})
     select
       (select count(*)::int from mirror.history where source_id = $1 and reference = $2 and raw is not null) as observations,
       (select count(*)::int from (${EVENTS}) e) as events,
       (select count(*)::int from parked) as quarantined`,
    [sourceId, reference],
  );
  return rows[0] ?? { observations: 0, events: 0, quarantined: 0 };
}

const ERASE = `
  with parked as materialized (${PARKED}),
  noted as (
    insert into mirror.erasures (source_id, reference) values ($1, $2) on conflict do nothing
  ),
  latest as (
    update mirror.orders set external_order_id = null, raw = mirror.redact_order(raw, reference, status)
    where source_id = $1 and reference = $2
  ),
  observations as (
    update mirror.history set raw = mirror.redact_order(raw, reference, status)
    where source_id = $1 and reference = $2 and raw is not null returning 1
  ),
  events as (
    update mirror.inbox set body = convert_to('${ERASED_BODY}', 'UTF8') where seq in (${EVENTS}) returning 1
  ),
  quarantined as (
    update mirror.quarantine set raw = null where quarantine_id in (select quarantine_id from parked) returning 1
  )
  select (select count(*)::int from observations) as observations, (select count(*)::int from events) as events,
    (select count(*)::int from quarantined) as quarantined`;

/**
 * Removes the personal data of an order wherever it is, and notes that it must not come back: applyBatch redacts what
 * is seen of it later. Reference, status, times, fleet, branch and the order key stay. All or nothing; erasing again
 * changes nothing.
 *
 * Waits for running batches and holds up new ones meanwhile: a batch that began before could not see the note, and
 * would write the order anew. Throws UnavailableError when that takes too long; nothing was done then.
 */
export async function eraseOrder(pool: Pool, { sourceId, reference }: Subject): Promise<ErasureCount> {
  try {
    return await inTransaction(pool, async (client) => {
      await client.query(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
      await client.query("lock table mirror.orders in share row exclusive mode");
      const { rows } = await client.query<ErasureCount>(ERASE, [sourceId, reference]);
      return rows[0] ?? { observations: 0, events: 0, quarantined: 0 };
    });
  } catch (error) {
    if (sqlState(error) !== LOCK_NOT_AVAILABLE) throw error;
    throw new UnavailableError("Something holds the table of orders for long, a VACUUM for example.", {
      cause: error,
      fix: "Nothing was erased. Run the command again later.",
    });
  }
}
