import { UnavailableError } from "../domain/errors.ts";
import { ERASED_BODY, PERSONAL_COLUMNS } from "../domain/order/orderColumns.ts";
import type { Pool, Queryable } from "../database/database.ts";
import { sqlState } from "../database/databaseErrors.ts";
import { inTransaction } from "../database/transaction.ts";

/** Counts of what is, or was, kept of an order, by place. */
export interface ErasureCount {
  /** Observations in the history with content. */
  readonly observations: number;
  readonly events: number;
  /** Input in quarantine that names the order. */
  readonly quarantined: number;
}

export interface ErasureSubject {
  readonly sourceId: string;
  readonly reference: string;
}

/** Batches wait as long as an erasure does; after this time it gives way. */
const LOCK_TIMEOUT_MS = 5_000;
const LOCK_NOT_AVAILABLE = "55P03";

/**
 * Runs `run` while no batch decides on anything, and no answer of an endpoint is recorded: those under way are waited
 * for, and new ones wait. Rolls back when it rejects. Throws UnavailableError when a table, or a row that `run`
 * changes, is locked for too long; nothing was written then.
 */
async function withDecisionsAtRest<Result>(
  pool: Pool,
  run: (client: Queryable) => Promise<Result>,
): Promise<Result> {
  try {
    return await inTransaction(pool, async (client) => {
      await client.query(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
      await client.query("lock table mirror.orders, mirror.outgoing_deliveries in share row exclusive mode");
      return run(client);
    });
  } catch (error) {
    if (sqlState(error) !== LOCK_NOT_AVAILABLE) throw error;
    throw new UnavailableError(
      "Something holds the table of orders, that of outgoing webhooks or a row for long, a VACUUM for example.",
      {
        cause: error,
        fix: "Nothing was erased. Run the command again later.",
      },
    );
  }
}

/**
 * Other sources with input about an order of this reference: of the other mode, for example, if it was sent to the
 * wrong address.
 */
export async function readOtherSources(
  pool: Pool,
  { sourceId, reference }: ErasureSubject,
): Promise<string[]> {
  const { rows } = await pool.query<{ source_id: string }>(
    "select distinct source_id from mirror.quarantine where reference = $2 and source_id <> $1 order by source_id",
    [sourceId, reference],
  );
  return rows.map(({ source_id }) => source_id);
}

// An event without a decision is redacted with it. $3 are the events that were known before, see readEvents: decisions
// may have been made or removed since.
const CONCERNED = `
  events as materialized (
    select inbox_seq as seq from mirror.history where source_id = $1 and reference = $2 and inbox_seq is not null
    union select inbox_seq from mirror.quarantine where source_id = $1 and reference = $2 and inbox_seq is not null
    union select unnest($3::bigint[])
  ), kept_raw as materialized (
    select quarantine_id from mirror.quarantine
    where source_id = $1 and (reference = $2 or inbox_seq in (select seq from events))
  )`;

/** Finds how much an erasure of this order would concern, and changes nothing. */
export async function previewErasure(pool: Pool, subject: ErasureSubject): Promise<ErasureCount> {
  const { sourceId, reference } = subject;
  const { rows } = await pool.query<ErasureCount>(
    `with ${CONCERNED}
     select
       (select count(*)::int from mirror.snapshots where source_id = $1 and reference = $2 and raw is not null) as observations,
       (select count(*)::int from events) as events,
       (select count(*)::int from kept_raw) as quarantined`,
    [sourceId, reference, await readEvents(pool, subject)],
  );
  return rows[0] ?? { observations: 0, events: 0, quarantined: 0 };
}

/**
 * Erases the personal data of an order everywhere, all or nothing; applyBatch redacts whatever arrives about it later.
 * Input that names no order is not searched: retention removes it (UNNAMED_EVENTS). Throws UnavailableError if the
 * table of orders is locked for too long; nothing was done then.
 */
export async function eraseOrder(pool: Pool, subject: ErasureSubject): Promise<ErasureCount> {
  // Before the lock: it reads events, and batches wait as long as the lock is held.
  const events = await readEvents(pool, subject);
  return withDecisionsAtRest(pool, (client) => writeErasure(client, subject, events));
}

/**
 * Events with this reference: those whose decision names it, and those whose decision retention removed from the
 * history, found by their text. Without such a removal there are none of the latter, and no text is read. Both in one
 * snapshot: otherwise retention could remove a decision in between, and its event would be in neither.
 */
async function readEvents(pool: Pool, { sourceId, reference }: ErasureSubject): Promise<string[]> {
  const { rows } = await pool.query<{ seq: string }>(
    `select inbox_seq as seq from mirror.history
     where source_id = $1 and reference = $2 and inbox_seq is not null
     union
     select seq from mirror.inbox i
     where exists (select from mirror.retention_walks where walk = 'history')
       and source_id = $1
       and not exists (select from mirror.history h where h.inbox_seq = i.seq)
       and not exists (select from mirror.pending p where p.seq = i.seq)
       and position(convert_to($3, 'UTF8') in body) > 0`,
    [sourceId, reference, JSON.stringify(reference)],
  );
  return rows.map(({ seq }) => seq);
}

/**
 * Removes the personal data of an order, and records that it must not return. Reference, status, times, fleet, branch
 * and the order key stay. Erasing again changes nothing. Run it within withDecisionsAtRest: a batch that started before
 * would not see the record, and would write the order again.
 */
async function writeErasure(
  client: Queryable,
  { sourceId, reference }: ErasureSubject,
  events: readonly string[],
): Promise<ErasureCount> {
  const { rows } = await client.query<ErasureCount>(
    `with ${CONCERNED},
     noted as (
       insert into mirror.erasures (source_id, reference) values ($1, $2) on conflict do nothing
     ),
     latest as (
       update mirror.orders set ${PERSONAL_COLUMNS.map((column) => `${column} = null`).join(", ")}, raw = mirror.redact_order(raw, reference, status)
       where source_id = $1 and reference = $2
     ),
     answers as (
       update mirror.outgoing_deliveries set answer = null
       where source_id = $1 and reference = $2 and answer is not null
     ),
     observations as (
       update mirror.history h set raw = mirror.redact_order(s.raw, h.reference, h.status), raw_start = null, raw_length = null
       from mirror.snapshots s
       where h.source_id = $1 and h.reference = $2 and s.history_id = h.history_id and s.raw is not null
       returning 1
     ),
     blanked as (
       update mirror.inbox set body = convert_to('${ERASED_BODY}', 'UTF8'), headers = null
       where seq = any (array(select seq from events)) returning 1
     ),
     quarantined as (
       update mirror.quarantine set raw = null where quarantine_id in (select quarantine_id from kept_raw) returning 1
     )
     -- Events first, as retention locks them.
     select (select count(*)::int from blanked) as events, (select count(*)::int from observations) as observations,
       (select count(*)::int from quarantined) as quarantined`,
    [sourceId, reference, events],
  );
  return rows[0] ?? { observations: 0, events: 0, quarantined: 0 };
}
