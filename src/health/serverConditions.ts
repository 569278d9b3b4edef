import { NANOS_PER_SECOND, type Instant } from "../domain/order/instant.ts";
import { perEndpoint, type Condition } from "./condition.ts";

const DEAD_JOB_SHOWN_NANOS = 900n * NANOS_PER_SECOND;

const toInstant = (seconds: number | null): Instant | null =>
  seconds === null ? null : BigInt(Math.round(seconds * 1_000)) * 1_000_000n;

/** Conditions of the servers behind the mirror, and of the business's own systems. */
export const SERVER_CONDITIONS: readonly Condition[] = [
  {
    name: "OrderMirrorNotWritable",
    severity: "critical",
    area: "database",
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
    label: "queue",
    measures: "the queue's server does not answer, or may lose jobs, for a minute",
    // A restart of Redis takes seconds, and needs nobody: workers find events without it, and processes reconnect.
    forSeconds: 60,
    noticedAfterSeconds: 0,
    remedy: "Start Redis; see REDIS_URL. Meanwhile workers find events without it, within seconds.",
    page: "/ops/queues",
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
    label: "queue",
    measures: "jobs failed for good within the last 15 minutes",
    forSeconds: 0,
    remedy: "/ops/queues shows why they failed. The overdue check applies their events.",
    page: "/ops/queues",
    find: ({ queues, now }) =>
      queues?.flatMap(({ name, newestDeadAt }) =>
        newestDeadAt === null || now - newestDeadAt > DEAD_JOB_SHOWN_NANOS
          ? []
          : [{ subject: name, since: newestDeadAt, cause: `Jobs of the queue ${name} failed for good.` }],
      ),
  },
  perEndpoint({
    name: "OrderMirrorOutgoingFailing",
    severity: "warning",
    area: "outgoing",
    measures: "webhooks to one of your endpoints fail and wait",
    forSeconds: 600,
    noticedAfterSeconds: 60,
    remedy:
      "/ops/outgoing shows the last attempts and answers; fix the endpoint. Nothing is lost until messages are given up.",
    page: "/ops/outgoing",
    holds: ({ failuresInRow, oldestPendingAt }) => failuresInRow > 0 && oldestPendingAt !== null,
    since: ({ oldestPendingAt }) => toInstant(oldestPendingAt),
    cause: ({ endpointId, failuresInRow, pending }) =>
      `Webhooks to ${endpointId} fail: ${pending} are waiting after ${failuresInRow} failed attempts in a row.`,
  }),
  perEndpoint({
    name: "OrderMirrorOutgoingGivenUp",
    severity: "warning",
    area: "outgoing",
    measures: "webhooks to one of your endpoints were given up",
    remedy: "/ops/outgoing shows the answers; fix the endpoint, then run `order-mirror outgoing retry`.",
    page: "/ops/outgoing",
    holds: ({ dead }) => dead > 0,
    since: ({ oldestDeadAt }) => toInstant(oldestDeadAt),
    cause: ({ endpointId, dead }) =>
      `${dead} ${dead === 1 ? "webhook" : "webhooks"} to ${endpointId} ${dead === 1 ? "was" : "were"} given up.`,
  }),
];
