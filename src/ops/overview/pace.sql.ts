import type { Pool } from "../../database/database.ts";

/** How fast events come and are decided, of all sources, over about the last minute. */
export interface Pace {
  readonly arrivingPerSecond: number;
  readonly decidedPerSecond: number;
}

/** More decisions within a minute are not counted; the pace then covers the time of these. */
const DECISIONS_MAX = 5_000;

export async function readPace(pool: Pool): Promise<Pace> {
  const { rows } = await pool.query<Pace>(
    `select coalesce((
         select sum(calls) / (60 + extract(second from clock_timestamp())) from mirror.webhook_calls
         where outcome = 'accepted' and minute >= date_trunc('minute', clock_timestamp()) - interval '1 minute'
       ), 0)::float8 as "arrivingPerSecond",
       (select count(*) filter (where via = 'webhook') / greatest(1, case when count(*) < ${DECISIONS_MAX} then 60
           else extract(epoch from clock_timestamp() - min(seen_at)) end)
        from (select via, seen_at from mirror.history order by history_id desc limit ${DECISIONS_MAX}) newest
        where seen_at > clock_timestamp() - interval '1 minute')::float8 as "decidedPerSecond"`,
  );
  return rows[0] ?? { arrivingPerSecond: 0, decidedPerSecond: 0 };
}
