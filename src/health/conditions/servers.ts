import { NANOS_PER_SECOND, type Instant } from "../../domain/order/instant.ts";
import type { Finding, Rule } from "./condition.ts";

export interface QueueFacts {
  readonly name: string;
  /** Problems of its server, each with a remedy. */
  readonly problems: readonly { readonly problem: string; readonly fix: string }[];
  /** When a job last failed for good; null if no failed job is stored. */
  readonly newestDeadAt: Instant | null;
  /** The number of jobs by state; absent if its server does not answer. */
  readonly jobs?: Readonly<Record<string, number>>;
}

/** The servers behind the mirror. */
export interface ServerFacts {
  /** The database's clock. */
  readonly now: Instant;
  /** Why Postgres cannot commit, and what to do; null if it can. */
  readonly unwritable: Pick<Required<Finding>, "cause" | "remedy"> | null;
  /** Null if this process does not know the queues. */
  readonly queues: readonly QueueFacts[] | null;
}

const DEAD_JOB_SHOWN_NANOS = 900n * NANOS_PER_SECOND;

/** Conditions of the servers behind the mirror. */
export const SERVER_CONDITIONS: readonly Rule<ServerFacts>[] = [
  {
    name: "OrderMirrorNotWritable",
    severity: "critical",
    area: "database",
    place: "On our side",
    answer: "Database stuck",
    label: null,
    measures: "Postgres cannot commit, so webhooks are answered 503",
    forSeconds: 0,
    remedy:
      "`order-mirror doctor` shows what is wrong with the server: a full disk, a standby, or an absent synchronous standby.",
    page: "/readyz?verbose",
    find: ({ unwritable }) => (unwritable === null ? [] : [{ subject: "", since: null, ...unwritable }]),
  },
  {
    name: "OrderMirrorQueueAway",
    severity: "warning",
    area: "queue",
    place: "On our side",
    answer: "Queue away",
    label: "queue",
    measures: "the queue's server does not answer, takes no jobs, or may lose them, for a minute",
    // A restart of Redis takes seconds, and needs nobody: workers find events without it, and processes reconnect.
    forSeconds: 60,
    noticedAfterSeconds: 0,
    remedy: "Start Redis; see REDIS_URL. Meanwhile workers find events without it, within seconds.",
    page: "/ops/queue-health",
    find: ({ queues }) =>
      queues?.flatMap(({ name, problems }) =>
        problems
          .slice(0, 1)
          .map(({ problem, fix }) => ({ subject: name, since: null, cause: problem, remedy: fix })),
      ),
  },
  {
    name: "OrderMirrorDeadJobs",
    severity: "warning",
    area: "queue",
    place: "On our side",
    answer: "Jobs failed",
    label: "queue",
    measures: "jobs failed for good within the last 15 minutes",
    forSeconds: 0,
    remedy: "/ops/queues shows why they failed. The overdue check applies their events.",
    endsBy: "15 minutes after the last failure",
    page: "/ops/queues",
    find: ({ queues, now }) =>
      queues?.flatMap(({ name, newestDeadAt }) =>
        newestDeadAt === null || now - newestDeadAt > DEAD_JOB_SHOWN_NANOS
          ? []
          : [{ subject: name, since: newestDeadAt, cause: `Jobs of the queue ${name} failed for good.` }],
      ),
  },
];
