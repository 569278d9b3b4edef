import type { Pool, Queryable } from "../database/database.ts";

/** The latest decision and the latest quarantine entry. */
export interface DecidedThrough {
  readonly historyId: string;
  readonly quarantineId: string;
}

/** Input that was stored without the reference of an order. */
export interface UnnamedInput {
  /** `event`: of the inbox; `quarantined`: what a read brought. */
  readonly kind: "event" | "quarantined";
  /** Its position in the inbox, or its number in quarantine. */
  readonly id: string;
  readonly body: Buffer;
}

export interface UnnamedPart {
  readonly input: readonly UnnamedInput[];
  /** Where the next part begins; null at the end. */
  readonly next: string | null;
}

const PART_ROWS = 1_000;
/** A part ends early beyond this many bytes; it always has at least one body. */
const PART_BYTES = 16 * 1_048_576;

/** All decisions up to here are committed, if no batch is under way: the caller holds the lock that keeps them out. */
export async function readDecidedThrough(client: Queryable): Promise<DecidedThrough> {
  const { rows } = await client.query<DecidedThrough>(
    `select coalesce((select max(history_id) from mirror.history), 0) as "historyId",
       coalesce((select max(quarantine_id) from mirror.quarantine), 0) as "quarantineId"`,
  );
  const [row] = rows;
  if (row === undefined) throw new TypeError("a row of values returns a row");
  return row;
}

/** Limits the rows of `unnamed` to one part, by the number of bytes before each, and adds where the part ends. */
const PART = `
  taken as (
    select * from (
      select *, sum(octet_length(body)) over (order by id) - octet_length(body) as bytes_before from unnamed
    ) counted where bytes_before < ${PART_BYTES}
  )
  select taken.id, taken.body, case
      when (select count(*) from taken) < (select count(*) from unnamed) then (select max(id) from taken)
      when (select count(*) from part) = ${PART_ROWS} then (select max(id) from part)
    end as next
  from (select 1) one left join taken on true order by taken.id`;

/** Events decided to be about no order, or without a decision in the history; others are found by reference. */
export function readUnnamedEvents(pool: Pool, sourceId: string, after: string): Promise<UnnamedPart> {
  return readPart(pool, [sourceId, after], {
    kind: "event",
    statement: `
      with part as materialized (
        select seq as id, source_id from mirror.inbox where seq > $2 order by seq limit ${PART_ROWS}
      ), unnamed as (
        select part.id, i.body from part join mirror.inbox i on i.seq = part.id
        where i.source_id = $1
          and not exists (select from mirror.history h where h.inbox_seq = part.id and h.reference is not null)
          and not exists (select from mirror.pending p where p.seq = part.id)
      ), ${PART}`,
  });
}

/** Quarantined input from reads of a source without an order reference, after a number. */
export function readUnnamedReads(pool: Pool, sourceId: string, after: string): Promise<UnnamedPart> {
  return readPart(pool, [sourceId, after], {
    kind: "quarantined",
    statement: `
      with part as materialized (
        select quarantine_id as id from mirror.quarantine where quarantine_id > $2 order by quarantine_id limit ${PART_ROWS}
      ), unnamed as (
        select part.id, q.raw as body from part join mirror.quarantine q on q.quarantine_id = part.id
        where q.source_id = $1 and q.reference is null and q.raw is not null
      ), ${PART}`,
  });
}

/** Input decided since then, without an order reference. */
export async function readUnnamedSince(
  database: Queryable,
  sourceId: string,
  { historyId, quarantineId }: DecidedThrough,
): Promise<UnnamedInput[]> {
  const { rows } = await database.query<UnnamedInput>(
    `select 'event' as kind, i.seq as id, i.body from mirror.history h join mirror.inbox i on i.seq = h.inbox_seq
     where h.history_id > $2 and h.source_id = $1 and h.reference is null
     union all
     select 'quarantined', quarantine_id, raw from mirror.quarantine
     where quarantine_id > $3 and source_id = $1 and reference is null and raw is not null`,
    [sourceId, historyId, quarantineId],
  );
  return rows;
}

async function readPart(
  pool: Pool,
  values: readonly [string, string],
  { kind, statement }: { kind: UnnamedInput["kind"]; statement: string },
): Promise<UnnamedPart> {
  const { rows } = await pool.query<{ id: string | null; body: Buffer; next: string | null }>(statement, [
    ...values,
  ]);
  return {
    input: rows.flatMap(({ id, body }) => (id === null ? [] : [{ kind, id, body }])),
    next: rows[0]?.next ?? null,
  };
}
