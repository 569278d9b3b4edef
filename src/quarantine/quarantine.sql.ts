import type { Instant } from "../domain/order/instant.ts";
import { queryInstants, type Pool } from "../database/database.ts";

export const QUARANTINE_STATES = ["open", "dismissed"] as const;
export type QuarantineState = (typeof QUARANTINE_STATES)[number];

/** Input that could not be applied. */
export interface QuarantinedInput {
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
  /** Byte for byte. */
  readonly body: Buffer;
}

/** Undefined if there is no entry with that number, for example because it was replayed. */
export async function readQuarantined(pool: Pool, quarantineId: string) {
  const [input] = await queryInstants<QuarantinedInput>(
    pool,
    `select q.quarantine_id::text as "quarantineId", q.source_id as "sourceId", q.via, q.reference, q.reason, q.detail,
       i.event_id as "eventId", q.state, mirror.nanos_of(q.quarantined_at) as "quarantinedAt",
       mirror.nanos_of(q.dismissed_at) as "dismissedAt", q.dismissed_because as "dismissedBecause",
       coalesce(i.body, q.raw, '') as body
     from mirror.quarantine q left join mirror.inbox i on i.seq = q.inbox_seq where q.quarantine_id = $1`,
    [quarantineId],
  );
  return input;
}
