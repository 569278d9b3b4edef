import type { Pool } from "../database/database.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import {
  markAlertNotified,
  recordAlerts,
  removeEndedAlert,
  type AlertKey,
  type StoredAlert,
} from "./alerts.sql.ts";
import type { Condition } from "./condition.ts";
import { CONDITIONS, type Holding, type Judgement } from "./judge.ts";

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
 * Sends a message for each condition that started or ended to hold; run it every minute, never concurrently.
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
