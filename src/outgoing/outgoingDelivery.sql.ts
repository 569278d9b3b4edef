import { changeColumns, toChange, type ChangeRow } from "../changes/changeFeed.sql.ts";
import type { Pool } from "../database/database.ts";
import type { OutgoingType } from "../domain/order/outgoing.ts";
import type { OutgoingWebhook } from "../runtime/config/outgoingFile.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { showAnswer, writeMessage } from "./outgoingMessage.ts";
import { judgeAnswer, type AttemptResult, type SendMessage } from "./outgoingSend.ts";

/** One of the business's own endpoints, as far as sending matters. */
export interface OutgoingEndpoint extends Pick<
  OutgoingWebhook,
  "endpointId" | "fields" | "ordered" | "rate"
> {
  readonly send: SendMessage;
}

/** The delays after each failure, as Standard Webhooks recommends: a little over three days until it is dead. */
export const RETRY_SECONDS = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
/** Random extra share of the delay, so that what failed together is not retried together. */
const JITTER = 0.2;

/** The delay after attempt `attempts`, which failed: at least what the endpoint asked for. `chance` is 0 to 1. */
export function retryDelayMs(
  attempts: number,
  {
    askedMs,
    chance,
    retrySeconds = RETRY_SECONDS,
  }: { askedMs: number; chance: number; retrySeconds?: readonly number[] },
): number {
  return Math.round(Math.max((retrySeconds[attempts - 1] ?? 0) * 1_000, askedMs) * (1 + JITTER * chance));
}

/** How a job went on, for the queue. */
export type Delivered =
  /** It ended, is sent again under another number, or its endpoint is retired. */
  | { readonly kind: "obsolete" }
  /** Look again after this delay; nothing was sent. */
  | { readonly kind: "waits"; readonly delayMs: number }
  | {
      readonly kind: "attempted";
      readonly result: AttemptResult;
      /** A status or the kind of an error; shown to people. */
      readonly outcome: string;
      /** The attempt in words, with what the endpoint answered. */
      readonly story: string;
      /** What the endpoint asked for; 0 if nothing. */
      readonly askedMs: number;
    };

/** An earlier change of the order is under way, or waits itself. */
const EARLIER_UNDER_WAY_MS = 200;
const EARLIER_FAILED_MS = 5_000;

/**
 * Makes the function that sends a delivery, if it is still to be sent, and records the end of the attempt.
 *
 * Rejects with the database's error; the attempt is then repeated, so an endpoint may get a message twice.
 */
export function makeDeliver(deps: {
  pool: Pool;
  endpoint: Pick<OutgoingEndpoint, "endpointId" | "send" | "fields" | "ordered">;
  logger: Logger;
}): (deliveryId: string, attempt: { number: number; isLast: boolean }) => Promise<Delivered> {
  const { pool, endpoint, logger } = deps;
  return async (deliveryId, { number, isLast }) => {
    const due = await readDue(pool, deliveryId, endpoint);
    if (due === undefined) return { kind: "obsolete" };
    const { paused, earlierAttempts, position } = due;
    if (paused || earlierAttempts !== null) {
      const isBrief = !paused && earlierAttempts === 0;
      return { kind: "waits", delayMs: isBrief ? EARLIER_UNDER_WAY_MS : EARLIER_FAILED_MS };
    }
    if (position === null) {
      const end = { outcome: "change_removed", result: "dead" } as const;
      await recordAttempt(pool, { deliveryId, ...end, durationMs: 0, answer: null });
      return { kind: "attempted", ...end, story: end.outcome, askedMs: 0 };
    }
    const change = toChange({ ...due, position });
    const { id, body } = writeMessage({ ...due, change }, endpoint.fields);
    const sent = await endpoint.send({ id, body });
    const { outcome, result } = judgeAnswer(sent, isLast);
    const durationMs = Math.round(sent.durationMs);
    const shown = sent.kind === "answered" ? showAnswer(sent.beginning, body) : null;
    const answer = await recordAttempt(pool, { deliveryId, durationMs, outcome, result, answer: shown });
    const fields = { endpoint: endpoint.endpointId, delivery_id: deliveryId, reference: change.reference };
    const [level, sentence] = SENTENCES[result];
    logger[level]({ ...fields, attempt: number, outcome }, sentence);
    const story = `${outcome} after ${durationMs} ms: ${answer ?? "no answer to show"}`;
    const askedMs = sent.kind === "answered" ? (sent.retryAfterMs ?? 0) : 0;
    return { kind: "attempted", result, outcome, story, askedMs };
  };
}

const SENTENCES = {
  dead: ["error", "an outgoing webhook was given up; it can be sent again by hand"],
  delivered: ["debug", "an outgoing webhook was delivered"],
  pending: ["info", "an outgoing webhook failed and will be tried again"],
} as const;

interface DueRow extends Omit<ChangeRow, "position"> {
  readonly paused: boolean;
  /** Attempts of the earlier change that this one waits for; null if there is none. */
  readonly earlierAttempts: number | null;
  readonly type: OutgoingType;
  /** The epoch of the change's position. */
  readonly epoch: string;
  /** Null when the change is no longer kept; then everything of it is, and there is nothing to send. */
  readonly position: string | null;
}

const DUE = `
  select e.paused_at is not null as paused, earlier.attempts as "earlierAttempts",
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

/** What a job is about now; undefined if nothing. `ordered`: a change waits until earlier ones of its order have ended. */
async function readDue(
  pool: Pool,
  deliveryId: string,
  { ordered }: { readonly ordered: boolean },
): Promise<DueRow | undefined> {
  const values = [deliveryId, ordered];
  return (await pool.query<DueRow>({ name: "outgoing-due", text: DUE, values })).rows[0];
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

/** Records the end of an attempt; returns the answer as it is kept. @internal */
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
