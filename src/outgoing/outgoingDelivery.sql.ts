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
  /** The endpoint is paused, or an earlier change of the order has not ended; `retried`: that one failed before. */
  | { readonly kind: "waits"; readonly retried: boolean };

interface DueRow extends Omit<ChangeRow, "position"> {
  readonly paused: boolean;
  /** Attempts of the earlier change that this one waits for; null if there is none. */
  readonly earlierAttempts: number | null;
  readonly type: OutgoingType;
  readonly epoch: string;
  /** Null when the change was removed; then everything of it is. */
  readonly position: string | null;
}

const DUE = `
  select e.paused_at is not null or e.listed = 'paused' as paused, earlier.attempts as "earlierAttempts",
    d.event_type as type, (select epoch from mirror.feed_epochs order by epoch_number desc limit 1) as epoch,
    ${changeColumns("c")}, mirror.change_digest(c) as digest, h.raw::text as after, p.raw::text as before
  from mirror.outgoing_deliveries d
  join mirror.outgoing_endpoints e using (endpoint_id)
  left join lateral (
    select o.attempts from mirror.outgoing_deliveries o
    where $2 and o.endpoint_id = d.endpoint_id and o.source_id = d.source_id and o.reference = d.reference
      and o.position < d.position and o.state = 'pending'
    order by o.position limit 1
  ) earlier on true
  left join mirror.changes c on c.position = d.position and c.source_id = d.source_id
  left join mirror.snapshots h on h.history_id = c.history_id
  left join mirror.snapshots p on p.history_id = c.previous_history_id
  where d.delivery_id = $1 and d.state <> 'delivered'`;

/** What a job is about now. `ordered`: a change waits until earlier ones of its order have ended. */
export async function readDue(
  pool: Pool,
  deliveryId: string,
  { ordered }: { readonly ordered: boolean },
): Promise<Due> {
  const values = [deliveryId, ordered];
  const { rows } = await pool.query<DueRow>({ name: "outgoing-due", text: DUE, values });
  const [row] = rows;
  if (row === undefined) return { kind: "obsolete" };
  if (row.paused || row.earlierAttempts !== null)
    return { kind: "waits", retried: row.paused || row.earlierAttempts !== 0 };
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
  /** The beginning of the answer, as people may see it; null: empty. */
  readonly answer: string | null;
  readonly result: "delivered" | "dead" | "pending";
}

// The order may have been erased during the attempt: the answer could still repeat what the message said.
// A delivery that was sent again in the meantime has another number: the late end of the former one changes nothing.
const RECORD = `
  with recorded as (
    update mirror.outgoing_deliveries d set
      state = $2, attempts = attempts + 1, last_attempt_at = clock_timestamp(), last_outcome = $3, duration_ms = $4,
      delivered_at = case when $2 = 'delivered' then clock_timestamp() end,
      answer = case when not exists (
        select from mirror.erasures x where x.source_id = d.source_id and x.reference = d.reference) then $5 end
    where delivery_id = $1 and state <> 'delivered'
    returning endpoint_id, answer
  ), counted as (
    update mirror.outgoing_endpoints e
    set failures_in_row = case when $2 = 'delivered' then 0 else failures_in_row + 1 end
    from recorded where e.endpoint_id = recorded.endpoint_id and not ($2 = 'delivered' and e.failures_in_row = 0)
    returning failures_in_row
  )
  select answer, coalesce((select failures_in_row from counted), 0) as "failuresInRow" from recorded`;

interface Recorded {
  /** How many attempts of the endpoint failed in a row. */
  readonly failuresInRow: number;
  /** Null also if the order was erased. */
  readonly answer: string | null;
}

/** Records the end of an attempt. */
export async function recordAttempt(pool: Pool, end: AttemptEnd): Promise<Recorded> {
  const { deliveryId, outcome, result, durationMs, answer } = end;
  const values = [deliveryId, result, outcome, durationMs, answer];
  const { rows } = await pool.query<Recorded>({ name: "outgoing-record", text: RECORD, values });
  return rows[0] ?? { failuresInRow: 0, answer: null };
}
