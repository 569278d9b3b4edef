import { NANOS_PER_SECOND, type Instant } from "../../domain/order/instant.ts";
import type { Rule } from "./condition.ts";

export interface QueueFacts {
  readonly name: string;
  /** Problems of its server, each with a remedy. */
  readonly problems: readonly { readonly problem: string; readonly fix: string }[];
  /** Time at which a job last failed for good; null if no failed job is stored. */
  readonly newestDeadAt: Instant | null;
  /** The number of jobs by state; absent if its server does not answer. */
  readonly jobs?: Readonly<Record<string, number>>;
}

/** Why Postgres cannot commit, and what to do. */
export interface Unwritable {
  readonly cause: string;
  readonly remedy: string;
}

const DEAD_JOB_SHOWN_NANOS = 900n * NANOS_PER_SECOND;

export const DATABASE_CONDITIONS: readonly Rule<Unwritable>[] = [
  {
    name: "OrderMirrorNotWritable",
    severity: "critical",
    area: "database",
    place: "On our side",
    answer: "Database stuck",
    measures: "Postgres cannot commit, so webhooks are answered 503",
    remedy:
      "`order-mirror doctor` shows what is wrong with the server: a full disk, a standby, or an absent synchronous standby.",
    page: "/readyz?verbose",
    holds: () => true,
    since: () => null,
    cause: ({ cause }) => cause,
    fix: ({ remedy }) => remedy,
  },
];

export const QUEUE_CONDITIONS: readonly Rule<QueueFacts & { readonly now: Instant }>[] = [
  {
    name: "OrderMirrorQueueAway",
    severity: "warning",
    area: "queue",
    place: "On our side",
    answer: "Queue away",
    measures: "the queue's server does not answer, takes no jobs, or may lose them, for a minute",
    // A restart of Redis takes seconds, and needs nobody: workers find events without it, and processes reconnect.
    forSeconds: 60,
    noticedAfterSeconds: 0,
    remedy: "Start Redis; see REDIS_URL. Meanwhile workers find events without it, within seconds.",
    page: "/ops/queue-health",
    holds: ({ problems }) => problems.length > 0,
    since: () => null,
    cause: ({ problems }) => problems[0]?.problem ?? "",
    fix: ({ problems }) => problems[0]?.fix ?? "",
  },
  {
    name: "OrderMirrorDeadJobs",
    severity: "warning",
    area: "queue",
    place: "On our side",
    answer: "Jobs failed",
    measures: "jobs failed for good within the last 15 minutes",
    remedy: "/ops/queues shows why they failed. The overdue check applies their events.",
    endsBy: "15 minutes after the last failure",
    page: "/ops/queues",
    holds: ({ newestDeadAt, now }) => newestDeadAt !== null && now - newestDeadAt <= DEAD_JOB_SHOWN_NANOS,
    since: ({ newestDeadAt }) => newestDeadAt,
    cause: ({ name }) => `Jobs of the queue ${name} failed for good.`,
  },
];
