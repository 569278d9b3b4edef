import type { Pool } from "../../database/database.ts";
import type { Window } from "../../domain/window/window.ts";

/**
 * Orders whose stored updatedAt is in `window` and that are not in `listed`: the `limit` oldest, and how many there are.
 *
 * Not a join: without statistics the server takes the window for one order, and would search the list once for each.
 */
export async function readUnlisted(
  pool: Pool,
  query: { sourceId: string; window: Window; listed: readonly string[]; limit: number },
): Promise<{ references: string[]; total: number }> {
  const { rows } = await pool.query<{ reference: string; total: number }>(
    `select o.reference, count(*) over ()::float8 as total from mirror.orders o
     where o.source_id = $1 and o.version >= $2::bigint and o.version < $3::bigint and o.gone_at is null
       and o.reference not in (select unnest($4::text[]))
     order by o.version limit $5`,
    [query.sourceId, query.window.since, query.window.until, query.listed, query.limit],
  );
  return { references: rows.map(({ reference }) => reference), total: rows[0]?.total ?? 0 };
}

/** An order of a sample, and its place in the random order in which the sample is read. */
export interface SampledOrder {
  readonly reference: string;
  readonly place: string;
}

/**
 * The next orders of a request's sample, in a random order that is fixed for the request. By place and not by number:
 * orders leave the period while they are compared, and those behind them would be skipped.
 */
export async function readSample(
  pool: Pool,
  { requestId, limit }: { requestId: bigint; limit: number },
): Promise<SampledOrder[]> {
  const { rows } = await pool.query<SampledOrder>(
    `select o.reference, place from mirror.period_requests r
     join mirror.orders o on o.source_id = r.source_id and o.version >= r.since and o.version < r.until
     cross join lateral md5(o.reference || r.request_id) as place
     where r.request_id = $1 and o.gone_at is null and (r.sampled_through is null or place > r.sampled_through)
     order by place limit $2`,
    [requestId, limit],
  );
  return rows;
}
