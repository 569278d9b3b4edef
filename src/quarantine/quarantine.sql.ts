import type { Instant } from "../domain/order/instant.ts";
import { queryInstants } from "../database/columns.ts";
import type { Pool } from "../database/database.ts";
import { bothWays, pickSort, writeKeyset } from "../database/keyset.sql.ts";
import type { Position } from "../database/keyset.sql.ts";

export const QUARANTINE_STATES = ["open", "dismissed"] as const;
export type QuarantineState = (typeof QUARANTINE_STATES)[number];

/** Input that could not be applied. */
export interface Quarantined {
  readonly quarantineId: string;
  readonly sourceId: string;
  readonly via: string;
  readonly reference: string | null;
  readonly reason: string;
  readonly detail: string | null;
  /** Null for input from a read of ours. */
  readonly eventId: string | null;
  readonly state: QuarantineState;
  /** The database's clock. */
  readonly quarantinedAt: Instant;
  readonly dismissedAt: Instant | null;
  readonly dismissedBecause: string | null;
}

const COLUMNS = `
  q.quarantine_id::text as "quarantineId", q.source_id as "sourceId", q.via, q.reference, q.reason, q.detail,
  i.event_id as "eventId", q.state, mirror.nanos_of(q.quarantined_at) as "quarantinedAt",
  mirror.nanos_of(q.dismissed_at) as "dismissedAt", q.dismissed_because as "dismissedBecause"`;

export interface ListedQuarantined extends Quarantined {
  readonly position: Position;
}

export const QUARANTINE_SORTS = bothWays([["q.quarantine_id", "bigint"]], ["newest", "oldest"]);

/** At most `limit` of the quarantined input; a null condition is ignored. */
export async function listQuarantined(
  pool: Pool,
  query: {
    state: QuarantineState;
    sourceId: string | null;
    reason: string | null;
    sort: string;
    after: Position | null;
    limit: number;
  },
): Promise<ListedQuarantined[]> {
  const { position, condition, order } = writeKeyset(pickSort(QUARANTINE_SORTS, query.sort), 5);
  return queryInstants<ListedQuarantined>(
    pool,
    `select ${position} as position, ${COLUMNS} from (
       select * from mirror.quarantine q
       where state = $1 and ($2::text is null or source_id = $2) and ($3::text is null or reason = $3) and ${condition}
       ${order} limit $4
     ) q left join mirror.inbox i on i.seq = q.inbox_seq ${order}`,
    [query.state, query.sourceId, query.reason, query.limit, query.after],
  );
}

/** The input, byte for byte. */
export interface QuarantinedInput extends Quarantined {
  readonly body: Buffer;
}

/** Undefined if there is no entry with that number, for example because it was replayed. */
export async function readQuarantined(
  pool: Pool,
  quarantineId: string,
): Promise<QuarantinedInput | undefined> {
  const [input] = await queryInstants<QuarantinedInput>(
    pool,
    `select ${COLUMNS}, coalesce(i.body, q.raw, '') as body
     from mirror.quarantine q left join mirror.inbox i on i.seq = q.inbox_seq where q.quarantine_id = $1`,
    [quarantineId],
  );
  return input;
}
