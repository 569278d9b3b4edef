import { ALERTS } from "./alerts.ts";
import type { Alert, AlertFacts } from "./alerts.ts";
import { markAlertTold, recordAlerts, removeEndedAlert } from "./alerts.sql.ts";
import type { StoredAlert } from "./alerts.sql.ts";
import type { Pool } from "../database/database.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";

/** What the outgoing webhook is sent. */
export interface AlertMessage {
  /** The same for every attempt to tell the same thing, so that a receiver can drop a repetition. */
  readonly id: string;
  readonly type: "alert.firing" | "alert.resolved";
  /** ISO 8601. */
  readonly created: string;
  readonly data: {
    readonly name: string;
    readonly source: string;
    readonly severity: Alert["severity"];
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
 * Judges all conditions and tells what began and what ended; run it every minute, one at a time.
 *
 * What was told is kept in Postgres, so that a restart repeats nothing. When the process dies between an accepted
 * message and its note, that message is sent once more, under the same id.
 */
export function makeAlerter({ pool, send, logger }: AlerterDeps) {
  return async function runOnce(facts: readonly AlertFacts[]): Promise<void> {
    const holding = facts.flatMap((each) =>
      ALERTS.filter(({ holds }) => holds(each)).map(({ name }) => ({ name, sourceId: each.sourceId })),
    );
    for (const stored of await recordAlerts(pool, holding)) {
      const about = facts.find(({ sourceId }) => sourceId === stored.sourceId);
      const alert = ALERTS.find(({ name }) => name === stored.name);
      // A condition of an older version of the program ends without a word.
      if (alert === undefined) await removeEndedAlert(pool, stored);
      // Where one message is not accepted the others would not be, and each attempt takes its time.
      else if (about !== undefined && !(await tell(alert, stored, about))) return;
    }
  };

  async function tell(alert: Alert, stored: StoredAlert, facts: AlertFacts): Promise<boolean> {
    const isDue = !stored.told && stored.now - stored.since >= alert.forSeconds;
    if (stored.endedAt === null && !isDue) return true;
    const message = makeMessage(alert, stored, facts);
    const { name, sourceId: source } = stored;
    try {
      await send(message);
    } catch (error) {
      logger.warn({ alert: name, source, type: message.type, err: error }, "an alert could not be sent");
      return false;
    }
    logger.info({ alert: name, source, type: message.type }, "an alert was sent");
    await (stored.endedAt === null ? markAlertTold(pool, stored) : removeEndedAlert(pool, stored));
    return true;
  }
}

function makeMessage(alert: Alert, stored: StoredAlert, facts: AlertFacts): AlertMessage {
  const { name, severity, fix } = alert;
  const type = stored.endedAt === null ? "alert.firing" : "alert.resolved";
  const since = toIso(stored.since);
  const source = stored.sourceId;
  const summary = stored.endedAt === null ? alert.summarize(facts) : `Over: ${name} of source ${source}.`;
  return {
    id: `alert_${name}_${source}_${Math.round(stored.since * 1_000)}_${type.slice("alert.".length)}`,
    type,
    created: toIso(stored.endedAt ?? stored.now),
    data: { name, source, severity, summary, fix, since },
  };
}

function toIso(seconds: number): string {
  return new Date(seconds * 1_000).toISOString();
}
