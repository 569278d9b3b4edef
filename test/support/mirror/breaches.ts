import { queryInstants, type Pool } from "../../../src/database/database.ts";
import type { Instant } from "../../../src/domain/order/instant.ts";
import type { Window } from "../../../src/domain/window/window.ts";

/** A withdrawn proof; see mirror.coverage_breaches. */
interface Breach extends Window {
  readonly breachId: bigint;
  readonly sourceId: string;
  readonly kind: "missed_change" | "differing" | "late_event";
  readonly reference: string;
  readonly version: Instant;
  readonly foundBy: string;
  /** By the database's clock. */
  readonly foundAt: Instant;
  readonly detail: string;
  readonly safeThroughBefore: Instant | null;
  readonly safeThroughAfter: Instant | null;
  /** Null until the period is proved again. */
  readonly reprovedAt: Instant | null;
}

/** Breaches of a source, newest first: those numbered above `after`, at most `limit`. */
export function readBreaches(
  pool: Pool,
  { sourceId, after, limit }: { sourceId: string; after: bigint; limit: number },
): Promise<Breach[]> {
  return queryInstants<Breach>(
    pool,
    `select breach_id as "breachId", source_id as "sourceId", since, until, kind, reference, version,
       found_by as "foundBy", mirror.nanos_of(found_at) as "foundAt", detail,
       safe_through_before as "safeThroughBefore", safe_through_after as "safeThroughAfter",
       mirror.nanos_of(reproved_at) as "reprovedAt"
     from mirror.coverage_breaches where source_id = $1 and breach_id > $2 order by breach_id desc limit $3`,
    [sourceId, after, limit],
  );
}
