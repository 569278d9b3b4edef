import type { Instant } from "../domain/order/instant.ts";
import type { Decision } from "../apply/applySubjects.ts";
import { queryInstants, type Pool } from "../database/database.ts";

/** A decision as the history keeps it; `previousStatus` is null where nothing changed, too. */
export interface DecisionRow extends Omit<Decision, "storedVersion"> {
  readonly historyId: bigint;
  /** The database's clock. */
  readonly seenAt: Instant;
}

export interface DecisionFilter {
  /** Null: of every source. */
  readonly sourceId: string | null;
  /** Null: of every order. */
  readonly reference: string | null;
}

/**
 * Decisions, oldest first, at most `limit`: the next ones beyond `afterId`, or the newest ones. A smaller number may
 * still be committed later.
 */
export async function readDecisions(
  pool: Pool,
  { sourceId, reference, afterId, limit }: DecisionFilter & { afterId?: bigint; limit: number },
): Promise<DecisionRow[]> {
  const rows = await queryInstants<DecisionRow>(
    pool,
    `select ${DECISION_COLUMNS} from mirror.history h
     where ($1::text is null or h.source_id = $1) and ($2::text is null or h.reference = $2)
       and ($3::bigint is null or h.history_id > $3)
     order by h.history_id ${afterId === undefined ? "desc" : "asc"} limit $4`,
    [sourceId, reference, afterId ?? null, limit],
  );
  return afterId === undefined ? rows.reverse() : rows;
}

/** The number of the newest decision that can be seen; 0 when there is none. */
export async function readNewestDecision(pool: Pool): Promise<bigint> {
  const [newest] = await queryInstants<{ id: bigint | null }>(
    pool,
    "select max(history_id) as id from mirror.history",
  );
  return newest?.id ?? 0n;
}

/** The columns of mirror.history h that make a DecisionRow; for queryInstants. */
export const DECISION_COLUMNS = `
  h.history_id as "historyId", h.source_id as "sourceId", h.reference, h.via, h.verdict, h.conflict, h.reason,
  h.event_id as "eventId", h.event_type as "eventType", h.status, h.previous_status as "previousStatus", h.version,
  (extract(epoch from h.seen_at) * 1000000000)::bigint as "seenAt"`;
