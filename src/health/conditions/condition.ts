import { wordFor } from "../../domain/wordFor.ts";
import type { Instant } from "../../domain/order/instant.ts";

/** Counts of waiting entries stop here, separately for each source: more digits would not help anybody. */
export const COUNT_MAX = 100_000;

/** Occurrence of a condition. */
interface Finding {
  /** Name of the source, endpoint or queue; empty if there is only one. */
  readonly subject: string;
  /** Start of the occurrence; null if it is unknown. */
  readonly since: Instant | null;
  readonly cause: string;
  readonly remedy: string;
}

/**
 * Areas of the product; doctor reports what it finds of each under its name, and the overview asks a question of each.
 */
export type Area =
  // The servers that the mirror needs.
  | "database"
  | "queue"
  // What it does.
  | "events"
  | "worker"
  | "poller"
  | "coverage"
  | "quarantine"
  | "outgoing";

/** Stands for the page of the source that a condition is about. */
export const SOURCE_PAGE = "/ops/sources";

/**
 * End of the conditions of webhooks that do not arrive. Only a call that is accepted shows that they are mended; at
 * night none may come for hours unless a person has one sent.
 */
export const ENDS_WITH_A_CALL =
  "with the next accepted call, so once it is mended have the provider send a test or an old event again";

/** Whose a problem is, as far as it is known: whom to call. */
export type Place =
  | "On our side"
  | "At the provider"
  | "At the provider, or on the way to it"
  | "Between us and the provider"
  | "Between us and your endpoint";

/** Remedies that take one press on a page; `src/ops/remedies.ts` carries them out. */
export type Button = "resume" | "gap" | "reread" | "outgoing-pause" | "outgoing-resume" | "outgoing-retry";

/**
 * A problem of the mirror that people should know about, with all that is said of it. The ops page, `status`, `doctor`,
 * readiness, alerts and metrics use the same list, and the Prometheus rules are generated from it.
 */
export interface Condition {
  /** Also the name of the alert and of its section in docs/runbook.md. */
  readonly name: `OrderMirror${string}`;
  readonly severity: "critical" | "warning";
  readonly area: Area;
  /** Whose it is. */
  readonly place: Place;
  /** The overview's answer to the question of the area, in one to three words. */
  readonly answer: string;
  /** The metric label that identifies its subject; null if there is only one. */
  readonly label: "source" | "endpoint" | "queue" | null;
  /** Detected fact, as a clause after the subject: "live: no poller leads". */
  readonly measures: string;
  /** Seconds for which it must hold before it is shown and notified. */
  readonly forSeconds: number;
  /** From this age on, if it is less than forSeconds, the overview no longer says that all is good. */
  readonly noticedAfterSeconds?: number;
  readonly remedy: string;
  /** Its occurrences lie in the past: when it goes away by itself, as a clause. Absent: it holds while it happens. */
  readonly endsBy?: string;
  /** The ops page with details. */
  readonly page: string;
  /** Remedy that a person can press without having to look first. */
  readonly button?: Button;
}

/**
 * A condition with how each source, endpoint, queue or server is judged; it holds as soon as it is found, unless
 * `forSeconds` says otherwise.
 */
export interface Rule<Subject>
  extends Omit<Condition, "label" | "forSeconds">, Partial<Pick<Condition, "forSeconds">> {
  readonly holds: (subject: Subject) => boolean;
  /** Finds its start; null if that is unknown: it then counts from its first observation. */
  readonly since: (subject: Subject) => Instant | null;
  /** Says in one sentence what is wrong. */
  readonly cause: (subject: Subject) => string;
  /** Says what to do, if that is more specific than the condition's remedy. */
  readonly fix?: (subject: Subject) => string;
}

/** A condition with its occurrences; undefined if this process does not have the necessary facts. */
export interface Judged<Facts> extends Condition {
  readonly find: (facts: Facts) => readonly Finding[] | undefined;
}

/** Makes rules about all subjects from the rules about each. */
export function judgeEach<Subject, Facts>(
  rules: readonly Rule<Subject>[],
  label: Condition["label"],
  listSubjects: (facts: Facts) => readonly (readonly [name: string, subject: Subject])[] | undefined,
): Judged<Facts>[] {
  return rules.map(({ holds, since, cause, fix, ...condition }) => ({
    forSeconds: 0,
    ...condition,
    label,
    find: (facts) =>
      listSubjects(facts)
        ?.filter(([, subject]) => holds(subject))
        .map(([name, subject]) => ({
          subject: name,
          since: since(subject),
          cause: cause(subject),
          remedy: fix?.(subject) ?? condition.remedy,
        })),
  }));
}

/** "12 events", "1 event", "more than 100,000 events". */
export function describeCount(number: number, noun: string, plural?: string): string {
  const digits = Math.min(number, COUNT_MAX).toLocaleString("en-US");
  return `${number > COUNT_MAX ? "more than " : ""}${digits} ${wordFor(number, noun, plural)}`;
}
