import type { OutgoingType } from "../domain/order/outgoing.ts";
import { changeColumns, toChange } from "../changes/changeFeed.sql.ts";
import type { Change, ChangeRow } from "../changes/changeFeed.sql.ts";
import type { Pool } from "../database/database.ts";

/** A change to notify an endpoint of. */
export interface ChangeDelivery {
  readonly type: OutgoingType;
  /** The epoch of the change's position. */
  readonly epoch: string;
  readonly change: Change;
}

export type Due =
  | ({ readonly kind: "change" } & ChangeDelivery)
  /** The change is no longer kept: there is nothing to send. */
  | { readonly kind: "removed" }
  /** It ended, is sent again under another number, or its endpoint is retired. */
  | { readonly kind: "obsolete" }
  /** The endpoint is. */
  | { readonly kind: "paused" };

interface DueRow extends Omit<ChangeRow, "position"> {
  readonly paused: boolean;
  readonly type: OutgoingType;
  readonly epoch: string;
  /** Null when the change was removed; then everything of it is. */
  readonly position: string | null;
}

const DUE = `
  select e.paused_at is not null or e.listed = 'paused' as paused, d.event_type as type,
    (select epoch from mirror.feed_epochs order by epoch_number desc limit 1) as epoch,
    ${changeColumns("c")}, mirror.change_digest(c) as digest, h.raw::text as after, p.raw::text as before
  from mirror.outgoing_deliveries d
  join mirror.outgoing_endpoints e using (endpoint_id)
  left join mirror.changes c on c.position = d.position and c.source_id = d.source_id
  left join mirror.snapshots h on h.history_id = c.history_id
  left join mirror.snapshots p on p.history_id = c.previous_history_id
  where d.delivery_id = $1 and d.state <> 'delivered'`;

/** What a job is about now. */
export async function readDue(pool: Pool, deliveryId: string): Promise<Due> {
  const { rows } = await pool.query<DueRow>({ name: "outgoing-due", text: DUE, values: [deliveryId] });
  const [row] = rows;
  if (row === undefined) return { kind: "obsolete" };
  if (row.paused) return { kind: "paused" };
  const { type, position, epoch } = row;
  return position === null
    ? { kind: "removed" }
    : { kind: "change", type, epoch, change: toChange({ ...row, position }) };
}

export interface AttemptEnd {
  readonly deliveryId: string;
  /** A status or the kind of an error; shown to people. */
  readonly outcome: string;
  readonly durationMs: number;
  readonly result: "delivered" | "dead" | "pending";
}

// A delivery that was sent again in the meantime has another number: the late end of the former one changes nothing.
const RECORD = `
  with recorded as (
    update mirror.outgoing_deliveries set
      state = $2, attempts = attempts + 1, last_attempt_at = clock_timestamp(), last_outcome = $3, duration_ms = $4,
      delivered_at = case when $2 = 'delivered' then clock_timestamp() end
    where delivery_id = $1 and state <> 'delivered'
    returning endpoint_id
  ), counted as (
    update mirror.outgoing_endpoints e
    set failures_in_row = case when $2 = 'delivered' then 0 else failures_in_row + 1 end
    from recorded where e.endpoint_id = recorded.endpoint_id and not ($2 = 'delivered' and e.failures_in_row = 0)
    returning failures_in_row
  )
  select coalesce((select failures_in_row from counted), 0) as "failuresInRow" from recorded`;

/** Records the end of an attempt; returns how many attempts of the endpoint failed in a row. */
export async function recordAttempt(pool: Pool, end: AttemptEnd): Promise<number> {
  const { deliveryId, outcome, result, durationMs } = end;
  const values = [deliveryId, result, outcome, durationMs];
  const { rows } = await pool.query<{ failuresInRow: number }>({
    name: "outgoing-record",
    text: RECORD,
    values,
  });
  return rows[0]?.failuresInRow ?? 0;
}
