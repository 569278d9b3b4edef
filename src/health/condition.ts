import type { Instant } from "../domain/order/instant.ts";
import type { OutgoingEndpoint } from "./endpoints.sql.ts";
import { COUNT_MAX, type Standing } from "./standing.sql.ts";

export interface QueueFacts {
  readonly name: string;
  /** Problems of its server, each with a remedy. */
  readonly problems: readonly { readonly problem: string; readonly fix: string }[];
  /** When a job last failed for good; null if no failed job is stored. */
  readonly newestDeadAt: Instant | null;
  /** The number of jobs by state; absent if its server does not answer. */
  readonly jobs?: Readonly<Record<string, number>>;
}

/** The inputs of all conditions. Times are the database's unless stated otherwise. */
export interface Facts {
  readonly now: Instant;
  readonly sources: readonly Standing[];
  readonly endpoints: readonly OutgoingEndpoint[];
  /** Why Postgres cannot commit, and what to do; null if it can. */
  readonly unwritable: Pick<Required<Finding>, "cause" | "remedy"> | null;
  /** Null if this process does not know the queues. */
  readonly queues: readonly QueueFacts[] | null;
}

/** One occurrence of a condition. */
export interface Finding {
  /** Name of the source, endpoint or queue; empty if there is only one. */
  readonly subject: string;
  /** When it started; null if unknown: it then counts from its first observation. */
  readonly since: Instant | null;
  /** What is wrong, in one sentence. */
  readonly cause: string;
  /** What to do, if that is more specific than the condition's remedy. */
  readonly remedy?: string;
}

/** Areas of the product; doctor reports what it finds of each under its name. */
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
 * A problem of the mirror that people should know about. The ops page, `status`, `doctor`, readiness, alerts and
 * metrics all use this list, and the Prometheus rules are generated from it.
 */
export interface Condition {
  /** Also the name of the alert and of its section in docs/runbook.md. */
  readonly name: `OrderMirror${string}`;
  readonly severity: "critical" | "warning";
  readonly area: Area;
  /** The metric label that identifies its subject; null if there is only one. */
  readonly label: "source" | "endpoint" | "queue" | null;
  /** What it detects, as a clause after the subject: "live: no poller leads". */
  readonly measures: string;
  /** How long it must hold before it is shown and notified. */
  readonly forSeconds: number;
  /** From this age on, if it is less than forSeconds, the overview no longer says that all is good. */
  readonly noticedAfterSeconds?: number;
  readonly remedy: string;
  /** The ops page with details. */
  readonly page: string;
  /** The occurrences; undefined if this process does not have the necessary facts. */
  readonly find: (facts: Facts) => readonly Finding[] | undefined;
}

/** How a condition is judged for one of its subjects. */
export interface Judging<Subject> {
  readonly holds: (subject: Subject, facts: Facts) => boolean;
  /** When it started; absent if that is unknown. */
  readonly since?: (subject: Subject) => Instant | null;
  /** What is wrong, in one sentence. */
  readonly cause: (subject: Subject) => string;
  /** What to do, if that is more specific than the condition's remedy. */
  readonly fix?: (subject: Subject) => string;
}

/** A condition that holds as soon as it is found, unless `forSeconds` says otherwise. */
export type JudgedCondition<Subject> = Omit<Condition, "find" | "label" | "forSeconds"> &
  Partial<Pick<Condition, "forSeconds">> &
  Judging<Subject>;

/** A condition that is judged for each source separately. */
export function perSource(condition: JudgedCondition<Standing>): Condition {
  return judgeEach(condition, {
    label: "source",
    subjects: ({ sources }) => sources.map((source) => [source.sourceId, source]),
  });
}

/** A condition that is judged for each endpoint of outgoing webhooks separately. */
export function perEndpoint(condition: JudgedCondition<OutgoingEndpoint>): Condition {
  return judgeEach(condition, {
    label: "endpoint",
    subjects: ({ endpoints }) => endpoints.map((endpoint) => [endpoint.endpointId, endpoint]),
  });
}

function judgeEach<Subject>(
  { holds, since, cause, fix, ...condition }: JudgedCondition<Subject>,
  {
    label,
    subjects,
  }: {
    label: "source" | "endpoint";
    subjects: (facts: Facts) => readonly (readonly [name: string, subject: Subject])[];
  },
): Condition {
  return {
    forSeconds: 0,
    ...condition,
    label,
    find: (facts) =>
      subjects(facts)
        .filter(([, subject]) => holds(subject, facts))
        .map(([name, subject]) => ({
          subject: name,
          since: since?.(subject) ?? null,
          cause: cause(subject),
          ...(fix && { remedy: fix(subject) }),
        })),
  };
}

/** "12 events", "1 event", "more than 100,000 events". */
export function describeCount(number: number, noun: string, plural = `${noun}s`): string {
  const digits = Math.min(number, COUNT_MAX).toLocaleString("en-US");
  return `${number > COUNT_MAX ? "more than " : ""}${digits} ${number === 1 ? noun : plural}`;
}
