import { createHash } from "node:crypto";
import type { Pool } from "../database/database.ts";
import { describeSpan, secondsSince } from "../domain/duration.ts";
import { formatInstant } from "../domain/order/instant.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { markNotified, recordAlerts, type AlertKey, type StoredAlert } from "./alerts.sql.ts";
import type { Condition } from "./conditions/condition.ts";
import { CONDITIONS } from "./conditions/conditions.ts";
import { describeCondition, groupProblems, type Holding, type Judgement } from "./judge.ts";

/**
 * The message sent to the alert webhook: one for all sources, endpoints or queues of which a condition began or ended.
 */
export interface AlertMessage {
  /** Equal for every attempt to send the same message, so that a receiver can drop repetitions. */
  readonly id: string;
  readonly type: "alert.firing" | "alert.resolved";
  /** ISO 8601. */
  readonly created: string;
  readonly data: {
    readonly name: string;
    /** Null if it does not concern one source. */
    readonly source: string | null;
    /** The affected source, endpoint or queue; empty if there is only one, or more than one is affected. */
    readonly subject: string;
    readonly subjects: readonly string[];
    readonly severity: Condition["severity"];
    readonly summary: string;
    readonly fix: string;
    readonly since: string;
  };
}

type Send = (message: AlertMessage) => Promise<void>;

export interface AlerterDeps {
  readonly pool: Pool;
  /**
   * Resolves if the message was accepted; otherwise rejects, and the message is sent again at the next run. Null: this
   * process tells nobody.
   */
  readonly send: Send | null;
  readonly logger: Logger;
}

/**
 * Records which conditions hold, for every page of every process, and sends a message for each that started or ended to
 * hold; run it often, never concurrently.
 *
 * Postgres stores what was sent, so a restart repeats nothing. If the process dies between an accepted message and its
 * record, that message is sent once more, under the same id.
 */
export function makeAlerter({ pool, send, logger }: AlerterDeps) {
  return async function runOnce({ holding, doubtful, unjudged }: Judgement): Promise<void> {
    const keys = holding.map((held) => ({ ...keyOf(held), since: held.since }));
    const stored = await recordAlerts(pool, { holding: keys, doubtful: doubtful.map(keyOf), unjudged });
    // Another process may be configured to tell people.
    if (send === null) return;
    for (const group of groupAlerts(stored)) {
      const message = makeMessage(group, holding);
      // If one message is not accepted, the others would fail too, and each attempt takes time.
      if (message !== undefined && !(await tell(send, group, message))) return;
    }
  };

  async function tell(deliver: Send, group: readonly StoredAlert[], message: AlertMessage): Promise<boolean> {
    const told = { alert: message.data.name, subject: message.data.subject, type: message.type };
    try {
      await deliver(message);
    } catch (error) {
      logger.warn({ ...told, err: error }, "an alert could not be sent");
      return false;
    }
    logger.info(told, "an alert was sent");
    await markNotified(pool, group);
    return true;
  }
}

function keyOf({ condition, subject }: Holding): AlertKey {
  return { name: condition.name, subject };
}

/** Starts and ends of one condition, each together, in the order of their first. */
function groupAlerts(alerts: readonly StoredAlert[]): Iterable<readonly StoredAlert[]> {
  const groups = new Map<string, StoredAlert[]>();
  for (const alert of alerts) {
    const key = `${alert.name} ${alert.endedAt === null}`;
    groups.set(key, [...(groups.get(key) ?? []), alert]);
  }
  return groups.values();
}

/** Undefined if there is nothing to send: nothing is known of them any more. */
function makeMessage(group: readonly StoredAlert[], holding: readonly Holding[]): AlertMessage | undefined {
  const [first] = group;
  const condition = CONDITIONS.find(({ name }) => name === first?.name);
  if (first === undefined || condition === undefined) return undefined;
  const { name, since, endedAt, now } = first;
  const subjects = group.map(({ subject }) => subject);
  const held = holding.filter((each) => each.condition.name === name && subjects.includes(each.subject));
  const [problem] = groupProblems(held);
  if (endedAt === null && problem === undefined) return undefined;
  const type = endedAt === null ? "alert.firing" : "alert.resolved";
  const [only = "", ...others] = subjects;
  const subject = others.length === 0 ? only : "";
  const part =
    others.length === 0 ? only : createHash("sha256").update(subjects.join("\n")).digest("hex").slice(0, 16);
  const lasted = describeSpan(secondsSince(endedAt ?? now, since));
  const whose = subjects.filter((each) => each !== "").join(", ");
  const over = `Over after ${lasted}: ${describeCondition(condition)}${whose === "" ? "" : ` (${whose})`}.`;
  return {
    id: `alert_${name}_${part}_${since / 1_000_000n}_${type.slice("alert.".length)}`,
    type,
    created: formatInstant(endedAt ?? now, 3),
    data: {
      name,
      source: condition.label === "source" && others.length === 0 ? only : null,
      subject,
      subjects,
      severity: condition.severity,
      summary: problem === undefined || endedAt !== null ? over : problem.cause,
      fix: problem?.remedy ?? condition.remedy,
      since: formatInstant(since, 3),
    },
  };
}
