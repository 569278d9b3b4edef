import type { Aspect, Behaviour } from "../../domain/window/providerBehaviour.ts";
import type { Pool } from "../../database/database.ts";
import { writeUnderLease } from "../../database/leases.sql.ts";
import type { Lease } from "../../database/leases.sql.ts";

/** A measured aspect of the provider's behaviour. Times are seconds since 1970, by the database's clock. */
export interface StoredBehaviour {
  readonly sourceId: string;
  readonly aspect: Aspect;
  readonly value: string;
  readonly measuredAt: number;
  /** Null if it never had another value. */
  readonly previous: string | null;
  readonly changedAt: number | null;
}

/** Records the current values; one that differs from the stored value counts as changed now. Throws LeaseLostError. */
export async function recordBehaviour(
  pool: Pool,
  lease: Lease,
  { sourceId, behaviour }: { sourceId: string; behaviour: Behaviour },
): Promise<void> {
  const entries = Object.entries(behaviour);
  await writeUnderLease(
    pool,
    lease,
    `recorded as (
       insert into mirror.provider_behaviour as stored (source_id, aspect, value)
       select $4, aspect, value from held cross join unnest($5::text[], $6::text[]) as t (aspect, value)
       order by aspect
       on conflict (source_id, aspect) do update set
         value = excluded.value, measured_at = excluded.measured_at,
         previous = case when stored.value <> excluded.value then stored.value else stored.previous end,
         changed_at = case when stored.value <> excluded.value then excluded.measured_at else stored.changed_at end
     )`,
    [sourceId, entries.map(([aspect]) => aspect), entries.map(([, value]) => value)],
  );
}

/** The measurements of all sources, or of one. */
export async function readBehaviour(pool: Pool, sourceId: string | null = null): Promise<StoredBehaviour[]> {
  const { rows } = await pool.query<StoredBehaviour>(
    `select source_id as "sourceId", aspect, value, extract(epoch from measured_at)::float8 as "measuredAt", previous,
       extract(epoch from changed_at)::float8 as "changedAt"
     from mirror.provider_behaviour where $1::text is null or source_id = $1 order by source_id, aspect`,
    [sourceId],
  );
  return rows;
}
