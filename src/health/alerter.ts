import type { Pool } from "../database/database.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { markAlertNotified, recordAlerts, removeEndedAlert } from "./alerts.sql.ts";
import type { StoredAlert } from "./alerts.sql.ts";
import type { Condition } from "./condition.ts";
import { CONDITIONS } from "./conditions.ts";
import type { Holding, Judgement } from "./judge.ts";

/** What the outgoing webhook is sent. */
export interface AlertMessage {
  /** The same for every attempt to tell the same thing, so that a receiver can drop a repetition. */
  readonly id: string;
  readonly type: "alert.firing" | "alert.resolved";
  /** ISO 8601. */
  readonly created: string;
  readonly data: {
    readonly name: string;
    /** Null when it is not about a source. */
    readonly source: string | null;
    /** Source, endpoint or queue that it is about; empty for what there is one of. */
    readonly subject: string;
    readonly severity: Condition["severity"];
    readonly summary: string;
    readonly fix: string;
    readonly since: string;
  };
}

export interface AlerterDeps {
  readonly pool: Pool;
  /** Resolves when the message was accepted; rejects otherwise, and it is sent again the next time. */
  readonly send: (message: AlertMessage) => Promise<void>;
  readonly logger: Logger;
}

/**
 * Tells which conditions have begun to hold and which have ended; run it every minute, one at a time.
 *
 * What was notified is kept in Postgres, so that a restart repeats nothing. When the process dies between an accepted
 * message and its note, that message is sent once more, under the same id.
 */
export function makeAlerter({ pool, send, logger }: AlerterDeps) {
  return async function runOnce({ holding, unjudged }: Judgement): Promise<void> {
    const keys = holding.map(({ condition, subject, since }) => ({ name: condition.name, subject, since }));
    for (const stored of await recordAlerts(pool, { holding: keys, unjudged })) {
      const message = makeMessage(
        stored,
        holding.find(
          ({ condition, subject }) => condition.name === stored.name && subject === stored.subject,
        ),
      );
      // Where one message is not accepted the others would not be, and each attempt takes its time.
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

/** Undefined when there is nothing to tell. */
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
