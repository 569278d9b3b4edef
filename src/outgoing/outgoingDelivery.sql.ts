import { changeColumns, type Change } from "../changes/changeFeed.sql.ts";
import { queryInstants, type Pool } from "../database/database.ts";
import type { OutgoingType } from "../domain/order/outgoing.ts";
import type { AttemptResult } from "./outgoingSend.ts";

interface DueRow extends Omit<Change, "position"> {
  /** Attempts of the earlier change that this one waits for; null if there is none. */
  readonly earlierAttempts: number | null;
  readonly type: OutgoingType;
  /** The epoch of the change's position. */
  readonly epoch: string;
  /** Null when the change is no longer kept; then everything of it is, and there is nothing to send. */
  readonly position: bigint | null;
}

const DUE = `
  select earlier.attempts as "earlierAttempts", d.event_type as type,
    (select epoch from mirror.feed_epochs order by epoch_number desc limit 1) as epoch,
    ${changeColumns("c")}, mirror.change_digest(c) as digest, h.raw::text as after, p.raw::text as before
  from mirror.outgoing_deliveries d
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

/** What a job is about now; undefined if nothing. `ordered`: a change waits until earlier ones of its order have ended. */
export async function readDue(
  pool: Pool,
  deliveryId: string,
  { ordered }: { readonly ordered: boolean },
): Promise<DueRow | undefined> {
  const statement = { name: "outgoing-due", text: DUE };
  return (await queryInstants<DueRow>(pool, statement, [deliveryId, ordered]))[0];
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
  )
  select answer from recorded`;

/** Records the end of an attempt; returns the answer as it is kept. */
export async function recordAttempt(
  pool: Pool,
  end: {
    readonly deliveryId: string;
    readonly outcome: string;
    readonly durationMs: number;
    /** The beginning of the answer, as people may see it; null: empty. */
    readonly answer: string | null;
    readonly result: AttemptResult;
  },
): Promise<string | null> {
  const values = [end.deliveryId, end.result, end.outcome, end.durationMs, end.answer];
  const { rows } = await pool.query<{ answer: string | null }>({
    name: "outgoing-record",
    text: RECORD,
    values,
  });
  return rows[0]?.answer ?? null;
}
