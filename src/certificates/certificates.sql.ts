import type { Pool, Queryable } from "../database/database.ts";
import { queryInstants } from "../database/columns.ts";
import type { Window } from "../domain/window/window.ts";
import type { Period } from "./periodStates.sql.ts";
import type { StatementKind } from "./statement.ts";

/** The end of a source's chain. */
export interface ChainEnd {
  /** 0: the chain is empty. */
  readonly serial: number;
  readonly digest: string | null;
  readonly keyId: string | null;
  readonly lastBreach: string;
  /** Decimal nanoseconds of the database's clock. */
  readonly now: string;
}

/**
 * Reads the end of the chain, and holds it and the source's proof until the end of the transaction: no other process
 * adds a statement, and no proof is withdrawn meanwhile. Undefined if the source was never polled.
 */
export async function lockChain(client: Queryable, sourceId: string): Promise<ChainEnd | undefined> {
  const { rowCount } = await client.query("select from mirror.poll_state where source_id = $1 for update", [
    sourceId,
  ]);
  if (rowCount === 0) return undefined;
  const { rows } = await client.query<ChainEnd>(
    `select coalesce(c.serial, 0) as serial, encode(c.digest, 'hex') as digest, c.key_id as "keyId",
       (select coalesce(max(breach_id), 0)::text from mirror.coverage_breaches where source_id = $1) as "lastBreach",
       mirror.nanos_of(clock_timestamp())::text as now
     from (select) as one left join (
       select * from mirror.certificates where source_id = $1 order by serial desc limit 1
     ) c on true`,
    [sourceId],
  );
  return rows[0];
}

export interface StoredStatement {
  readonly sourceId: string;
  readonly serial: number;
  readonly kind: StatementKind;
  readonly window: Window | null;
  readonly orders: number | null;
  readonly lastBreach: string;
  readonly revokes: number | null;
  readonly digest: string;
  readonly keyId: string;
  readonly envelope: string;
}

/** Adds a statement, in the transaction that has locked the chain. */
export async function addStatement(client: Queryable, one: StoredStatement): Promise<void> {
  await client.query(
    `insert into mirror.certificates (source_id, serial, kind, since, until, orders, breach_id, revokes, digest, key_id,
       envelope)
     values ($1, $2, $3, $4, $5, $6, $7, $8, decode($9, 'hex'), $10, $11)`,
    [
      one.sourceId,
      one.serial,
      one.kind,
      one.window?.since ?? null,
      one.window?.until ?? null,
      one.orders,
      one.lastBreach,
      one.revokes,
      one.digest,
      one.keyId,
      one.envelope,
    ],
  );
}

/** A certificate of completeness as stored. */
export interface StoredCertificate extends Period {
  readonly serial: number;
  readonly orders: number;
  readonly digest: string;
  readonly lastBreach: string;
  readonly envelope: string;
  /** When a change was found that it had missed, decimal nanoseconds; null while it holds. */
  readonly disprovedAt: string | null;
  /** Serial number of its revocation; null while there is none. */
  readonly revokedBy: number | null;
}

const CERTIFICATES = `
select v.source_id as "sourceId", v.serial, c.since, c.until, c.orders, v.digest, c.breach_id::text as "lastBreach",
  v.envelope, mirror.nanos_of(v.disproved_at)::text as "disprovedAt", v.revoked_by as "revokedBy"
from reporting.certificates v join mirror.certificates c using (source_id, serial)`;

/** The last certificate of exactly this period. */
export async function readCertificate(
  database: Queryable,
  { sourceId, since, until }: Period,
): Promise<StoredCertificate | undefined> {
  const [found] = await queryInstants<StoredCertificate>(
    database,
    `${CERTIFICATES} where c.source_id = $1 and c.kind = 'completeness' and c.since = $2 and c.until = $3
     order by serial desc limit 1`,
    [sourceId, since, until],
  );
  return found;
}

/** The certificate with this place in the chain. */
export async function findCertificate(
  pool: Pool,
  { sourceId, serial }: { sourceId: string; serial: number },
): Promise<StoredCertificate | undefined> {
  const [found] = await queryInstants<StoredCertificate>(
    pool,
    `${CERTIFICATES} where c.source_id = $1 and c.serial = $2`,
    [sourceId, serial],
  );
  return found;
}

/** Certificates that a later breach has disproved and that are not revoked yet, the oldest first. */
export async function readDisproved(database: Queryable, sourceId: string): Promise<StoredCertificate[]> {
  return queryInstants<StoredCertificate>(
    database,
    `${CERTIFICATES} where c.source_id = $1 and c.kind = 'completeness'
       and c.breach_id < (select max(breach_id) from mirror.coverage_breaches where source_id = $1)
       and v.disproved_at is not null and v.revoked_by is null
     order by serial`,
    [sourceId],
  );
}

const DAY_NANOS = "86400000000000";

/**
 * Days of UTC within the last week that no certificate covers and that ended at least `marginSeconds` before what is
 * proved, the oldest first.
 */
export async function readUncertifiedDays(
  pool: Pool,
  { sourceId, marginSeconds }: { sourceId: string; marginSeconds: number },
): Promise<Window[]> {
  const statement = {
    name: "read-uncertified-days",
    text: `select day as since, day + ${DAY_NANOS} as until
     from mirror.poll_state p
     cross join lateral (select p.safe_through - $2 * 1000000000::bigint as reach) proved
     cross join lateral generate_series(
       reach - reach % ${DAY_NANOS} - 7 * ${DAY_NANOS}, reach - ${DAY_NANOS}, ${DAY_NANOS}) as day
     where p.source_id = $1 and day >= p.history_since and not exists (
       select from reporting.certificates v join mirror.certificates c using (source_id, serial)
       where c.source_id = $1 and c.kind = 'completeness' and c.since = day and c.until = day + ${DAY_NANOS}
         and v.disproved_at is null)
     order by day`,
  };
  return queryInstants<Window>(pool, statement, [sourceId, marginSeconds]);
}

/** The digest of the last statement of a source's chain; undefined while there is none. */
export async function readChainEnd(database: Queryable, sourceId: string): Promise<string | undefined> {
  const { rows } = await database.query<{ digest: string }>(
    `select encode(digest, 'hex') as digest from mirror.certificates where source_id = $1 order by serial desc limit 1`,
    [sourceId],
  );
  return rows[0]?.digest;
}

/** A statement with all its exceptions may be large: a page of them is all that is in memory. */
const CHAIN_PAGE = 50;

/** The envelopes of a source's chain, the first one first. Rows are only added, so no snapshot is needed. */
export async function* readChain(database: Queryable, sourceId: string): AsyncGenerator<string, void, void> {
  for (let after = 0; ; after += CHAIN_PAGE) {
    const { rows } = await database.query<{ envelope: string }>(
      `select envelope from mirror.certificates where source_id = $1 and serial > $2 and serial <= $3 order by serial`,
      [sourceId, after, after + CHAIN_PAGE],
    );
    for (const { envelope } of rows) yield envelope;
    if (rows.length < CHAIN_PAGE) return;
  }
}
