import type { Instant } from "../domain/order/instant.ts";
import type { Pool } from "../database/database.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import type { Condition } from "./conditions/condition.ts";
import { CONDITIONS } from "./conditions/conditions.ts";
import type { Holding, Judgement } from "./judge.ts";

/** The message sent to the alert webhook. */
export interface AlertMessage {
  /** The same for every attempt to send the same message, so that a receiver can drop repetitions. */
  readonly id: string;
  readonly type: "alert.firing" | "alert.resolved";
  /** ISO 8601. */
  readonly created: string;
  readonly data: {
    readonly name: string;
    /** Null if it does not concern a source. */
    readonly source: string | null;
    /** The affected source, endpoint or queue; empty if there is only one. */
    readonly subject: string;
    readonly severity: Condition["severity"];
    readonly summary: string;
    readonly fix: string;
    readonly since: string;
  };
}

export interface AlerterDeps {
  readonly pool: Pool;
  /** Resolves if the message was accepted; otherwise rejects, and the message is sent again at the next run. */
  readonly send: (message: AlertMessage) => Promise<void>;
  readonly logger: Logger;
}

/**
 * Sends a message for each condition that started or ended to hold; run it often, never concurrently.
 *
 * Postgres stores what was sent, so a restart repeats nothing. If the process dies between an accepted message and its
 * record, that message is sent once more, under the same id.
 */
export function makeAlerter({ pool, send, logger }: AlerterDeps) {
  return async function runOnce({ holding, doubtful, unjudged }: Judgement): Promise<void> {
    const keys = holding.map((held) => ({ ...keyOf(held), since: held.since }));
    for (const stored of await recordAlerts(pool, {
      holding: keys,
      doubtful: doubtful.map(keyOf),
      unjudged,
    })) {
      const message = makeMessage(
        stored,
        holding.find(
          ({ condition, subject }) => condition.name === stored.name && subject === stored.subject,
        ),
      );
      // If one message is not accepted, the others would fail too, and each attempt takes time.
      if (message !== undefined && !(await tell(stored, message))) return;
    }
  };

  async function tell(stored: StoredAlert, message: AlertMessage): Promise<boolean> {
    const { name, subject } = stored;
    try {
      await send(message);
    } catch (error) {
      logger.warn({ alert: name, subject, type: message.type, err: error }, "an alert could not be sent");
      return false;
    }
    logger.info({ alert: name, subject, type: message.type }, "an alert was sent");
    await (stored.endedAt === null ? markAlertNotified(pool, stored) : removeEndedAlert(pool, stored));
    return true;
  }
}

function keyOf({ condition, subject }: Holding): AlertKey {
  return { name: condition.name, subject };
}

/** Undefined if there is nothing to send. */
function makeMessage(stored: StoredAlert, held: Holding | undefined): AlertMessage | undefined {
  const { name, subject, endedAt, notified } = stored;
  const condition = CONDITIONS.find((each) => each.name === name);
  if (endedAt === null && (notified || held === undefined)) return undefined;
  const type = endedAt === null ? "alert.firing" : "alert.resolved";
  return {
    id: `alert_${name}_${subject}_${Math.round(stored.since * 1_000)}_${type.slice("alert.".length)}`,
    type,
    created: toIso(endedAt ?? stored.now),
    data: {
      name,
      source: condition?.label === "source" ? subject : null,
      subject,
      severity: condition?.severity ?? "warning",
      summary: endedAt === null ? (held?.cause ?? name) : `Over: ${[name, subject].join(" ").trim()}.`,
      fix: held?.remedy ?? condition?.remedy ?? "",
      since: toIso(stored.since),
    },
  };
}

function toIso(seconds: number): string {
  return new Date(seconds * 1_000).toISOString();
}

/** Identifies an alert: a condition and its subject. */
interface AlertKey {
  readonly name: string;
  readonly subject: string;
}

/** An alert as stored. Times are seconds since 1970, by the database's clock. */
interface StoredAlert extends AlertKey {
  readonly since: number;
  readonly now: number;
  readonly endedAt: number | null;
  readonly notified: boolean;
}

/**
 * Records which conditions hold, each with its start, and returns all rows. A condition that returns before its end was
 * notified continues unchanged; one that ended before its start was notified is deleted. Those in `doubtful`, and of
 * conditions in `unjudged`, stay unchanged.
 */
async function recordAlerts(
  pool: Pool,
  {
    holding,
    doubtful,
    unjudged,
  }: {
    holding: readonly (AlertKey & { since: Instant })[];
    doubtful: readonly AlertKey[];
    unjudged: readonly string[];
  },
): Promise<StoredAlert[]> {
  const { rows } = await pool.query<StoredAlert>(
    `with holding as (
       select * from unnest($1::text[], $2::text[], $3::bigint[]) as h (name, subject, since)
     ), over as (
       select name, subject, notified_at from mirror.alerts
       where (name, subject) not in (select name, subject from holding) and name <> all ($4::text[])
         and (name, subject) not in (select * from unnest($5::text[], $6::text[]))
     ), begun as (
       insert into mirror.alerts as alert (name, subject, since)
       select name, subject, mirror.instant_at(since) from holding order by name, subject
       on conflict (name, subject) do update set ended_at = null where alert.ended_at is not null
       returning *
     ), ended as (
       update mirror.alerts a set ended_at = clock_timestamp() from over
       where a.name = over.name and a.subject = over.subject and a.notified_at is not null and a.ended_at is null
       returning a.*
     ), forgotten as (
       delete from mirror.alerts a using over
       where a.name = over.name and a.subject = over.subject and a.notified_at is null
       returning a.name, a.subject
     ), changed as (
       select * from begun union all select * from ended
     ), current as (
       select * from changed
       union all
       select * from mirror.alerts
       where (name, subject) not in (select name, subject from changed)
         and (name, subject) not in (select name, subject from forgotten)
     )
     select name, subject, extract(epoch from since)::float8 as since,
       extract(epoch from clock_timestamp())::float8 as "now",
       extract(epoch from ended_at)::float8 as "endedAt", notified_at is not null as notified
     from current order by since, name, subject`,
    [
      holding.map(({ name }) => name),
      holding.map(({ subject }) => subject),
      holding.map(({ since }) => since),
      unjudged,
      doubtful.map(({ name }) => name),
      doubtful.map(({ subject }) => subject),
    ],
  );
  return rows;
}

/** Records that the firing alert was notified. */
async function markAlertNotified(pool: Pool, { name, subject }: AlertKey): Promise<void> {
  await pool.query(
    "update mirror.alerts set notified_at = clock_timestamp() where name = $1 and subject = $2",
    [name, subject],
  );
}

/** Removes an alert whose end was notified, unless its condition holds again. */
async function removeEndedAlert(pool: Pool, { name, subject }: AlertKey): Promise<void> {
  await pool.query("delete from mirror.alerts where name = $1 and subject = $2 and ended_at is not null", [
    name,
    subject,
  ]);
}
