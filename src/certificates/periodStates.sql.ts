import { queryInstants } from "../database/columns.ts";
import type { Queryable } from "../database/database.ts";
import { readInBatches } from "../database/snapshot.sql.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { Window } from "../domain/window/window.ts";
import type { OrderState } from "../domain/order/order.ts";
import type { Breach, Completeness } from "./statement.ts";

/** A period of one source. */
export interface Period extends Window {
  readonly sourceId: string;
}

/** As in a statement, but with times as decimal nanoseconds. */
export type FoundBreach = Breach;

/**
 * Windows that follow each other or overlap, read by one sweep under the same circumstances; as in a statement, but with
 * times as decimal nanoseconds. They may reach beyond the period; margins are the smallest of one of them.
 */
type ProvedRun = Completeness["proof"]["windows"][number];

/** What the ledger says about a period. */
export interface PeriodProof {
  /** The proof reaches from historySince (inclusive) to safeThrough (exclusive); null before the first proof. */
  readonly historySince: Instant | null;
  readonly safeThrough: Instant | null;
  /** Age at which the latest late change of the last week was seen. */
  readonly tailSeconds: number;
  readonly settleSeconds: number;
  readonly overlapSeconds: number;
  readonly provider: string;
  readonly database: string;
  /** Last breach of the source, 0 if there was none. */
  readonly lastBreach: string;
  /** The windows of the period that the ledger still has, except what an earlier breach has kept of others. */
  readonly runs: readonly ProvedRun[];
  readonly exceptions: readonly { readonly reference: string | null; readonly kind: string }[];
  readonly breaches: readonly FoundBreach[];
}

/** Breaches numbered above $4 that concern the period from $2 to $3. */
const BREACHES = `coalesce((
  select json_agg(json_build_object('id', breach_id::text, 'kind', kind, 'reference', reference,
    'updatedAt', version::text, 'foundBy', found_by, 'foundAt', mirror.nanos_of(found_at)::text,
    'reprovedAt', mirror.nanos_of(reproved_at)::text) order by breach_id)
  from mirror.coverage_breaches
  where source_id = $1 and since < $3::bigint and until > $2::bigint and breach_id > $4::bigint), '[]')`;

/** Proved windows that touch the period from $2 to $3, those with the same circumstances joined. */
const RUNS = `coalesce((
  select json_agg(json_build_object('since', since::text, 'until', until::text, 'sweep', sweep,
    'provider', coalesce(provider, ''), 'database', coalesce(server, ''), 'fence', fence::text, 'settleSeconds', coalesce(settle, 0),
    'overlapSeconds', coalesce(overlap, 0), 'windows', windows,
    'requests', requests) order by since, until, fence, sweep)
  from (
    select provider, server, fence, sweep, min(since) as since, max(until) as until, min(settle_seconds) as settle,
      min(overlap_seconds) as overlap, count(*) as windows, sum(requests) as requests
    from (
      select *, count(*) filter (where reach is null or reach < since) over (same order by since, until, coverage_id) as run
      from (
        select *, max(until) over (same order by since, until, coverage_id
          rows between unbounded preceding and 1 preceding) as reach
        from mirror.coverage c
        where c.source_id = $1 and c.proved and c.sweep <> 'kept' and c.since < $3::bigint and c.until > $2::bigint
        window same as (partition by provider, server, fence, sweep)
      ) c
      window same as (partition by provider, server, fence, sweep)
    ) c
    group by provider, server, fence, sweep, run
  ) runs), '[]')`;

/** Undefined if the source was never polled. */
export async function readPeriodProof(
  database: Queryable,
  { sourceId, since, until }: Period,
): Promise<PeriodProof | undefined> {
  const [proof] = await queryInstants<PeriodProof>(
    database,
    `select p.history_since as "historySince", p.safe_through as "safeThrough", coalesce(p.late_tail_seconds, 0)::float8 as "tailSeconds",
       coalesce(p.settle_seconds, 0)::float8 as "settleSeconds",
       coalesce(p.overlap_seconds, 0)::float8 as "overlapSeconds",
       coalesce(s.provider, s.base_url) as provider, mirror.server_identity() as database,
       (select coalesce(max(breach_id), 0)::text from mirror.coverage_breaches b where b.source_id = $1) as "lastBreach",
       coalesce((select json_agg(json_build_object('reference', reference, 'kind', kind) order by reference, kind)
         from mirror.exceptions e where e.source_id = $1), '[]') as exceptions,
       ${RUNS} as runs, ${BREACHES} as breaches
     from mirror.poll_state p join mirror.sources s using (source_id)
     where p.source_id = $1`,
    [sourceId, since, until, 0],
  );
  return proof;
}

/** Breaches of the period that were found after the breach `after`. */
export async function readLaterBreaches(
  database: Queryable,
  { sourceId, since, until }: Period,
  after: string,
): Promise<readonly FoundBreach[]> {
  const { rows } = await database.query<{ breaches: readonly FoundBreach[] }>(
    `select ${BREACHES} as breaches`,
    [sourceId, since, until, after],
  );
  return rows[0]?.breaches ?? [];
}

/** What the mirror notes of an order: integers of 64 bits are text, times microseconds since 1970. */
export interface NotedOrder {
  readonly firstSeenVia: string;
  readonly firstSeenAt: string;
  /** Of the state in the period; null if the order has changed again. */
  readonly revision: number | null;
  readonly changedAt: string | null;
}

/** What the mirror has of an order that has, or may have, a state in the period. */
export interface FoundState {
  /** The last state in the period that a read showed and none refuted; null if there is none. */
  readonly state: OrderState | null;
  /** Its JSON as the provider sent it, or without personal data after an erasure; null without a state. */
  readonly raw: string | null;
  /** What the mirror notes of the order. */
  readonly noted: NotedOrder;
  /** The provider no longer has the order. */
  readonly gone: boolean;
  /** There is no such state, but an event claimed one. */
  readonly claimed: boolean;
  /** There is no such state, but retention may have removed it. */
  readonly forgotten: boolean;
}

/*
 * Two parts, as in reporting.orders_as_of: orders whose current state is in the period, and orders that changed after
 * it. A state is certified only if a read showed it: a false event that is older than what reads show is never refuted.
 * Retention removes old rows of the history: fewer than the order had states, and all of them after the period.
 */
const STATES = `
select o.reference, o.version, encode(o.hash, 'hex') as hash, o.raw::text as raw, o.gone_at is not null as gone,
  false as claimed, false as forgotten, o.first_seen_via as "firstSeenVia", mirror.nanos_of(o.first_seen_at) / 1000 as "firstSeenAt",
  o.revision, mirror.nanos_of(o.changed_at) / 1000 as "changedAt"
from mirror.orders o
where o.source_id = $1 and o.version >= $2::bigint and o.version < $3::bigint and o.settled
union all
select o.reference, s.version, encode(s.hash, 'hex'), s.raw::text, o.gone_at is not null,
  s.version is null and known.claimed, s.version is null and known.states < o.revision and known.oldest >= $3::bigint,
  o.first_seen_via, mirror.nanos_of(o.first_seen_at) / 1000, null, null
from mirror.orders o
cross join lateral (
  select count(*) filter (where verdict in ('applied', 'corrected', 'gone')) as states,
    min(h.version) filter (where verdict in ('applied', 'corrected')) as oldest,
    coalesce(bool_or(version >= $2::bigint and version < $3::bigint and not refuted
      and verdict in ('applied', 'corrected', 'stale')), false) as claimed
  from mirror.history h where h.source_id = o.source_id and h.reference = o.reference
) known
left join lateral (
  select h.version, h.hash, (
      select r.raw from mirror.snapshots r
      where r.source_id = h.source_id and r.reference = h.reference and r.version = h.version and r.hash = h.hash
        and r.raw is not null limit 1
    ) as raw
  from mirror.history h
  where h.source_id = o.source_id and h.reference = o.reference
    and h.version >= $2::bigint and h.version < $3::bigint
    and h.via <> 'webhook' and h.verdict in ('applied', 'corrected', 'confirmed', 'stale', 'duplicate')
    and not exists (
      select from mirror.history r
      where r.source_id = h.source_id and r.reference = h.reference and r.version = h.version and r.hash = h.hash
        and r.refuted)
  order by h.version desc, h.settled desc, h.observed_at desc, h.rank desc, h.history_id desc
  limit 1
) s on true
where o.source_id = $1 and o.version >= $2::bigint and (o.version >= $3::bigint or not o.settled)
  and (s.version is not null or known.claimed or (known.states < o.revision and known.oldest >= $3::bigint))`;

const BATCH_ROWS = 500;

interface StateRow extends NotedOrder, Pick<FoundState, "raw" | "gone" | "claimed" | "forgotten"> {
  readonly reference: string;
  readonly version: string | null;
  readonly hash: string;
}

/** What the mirror has of the period, in batches. In a transaction. */
export async function* readPeriodStates(
  client: Queryable,
  { sourceId, since, until }: Period,
): AsyncGenerator<FoundState[]> {
  const query = { text: STATES, values: [sourceId, since, until] };
  for await (const rows of readInBatches<StateRow>(client, query, BATCH_ROWS)) {
    yield rows.map(({ reference, version, hash, raw, gone, claimed, forgotten, ...noted }) => ({
      raw,
      gone,
      claimed,
      forgotten,
      noted,
      state: version === null ? null : { reference, version: BigInt(version), hash },
    }));
  }
}
