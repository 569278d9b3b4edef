import { z } from "zod";
import type { Pool } from "../../database/database.ts";
import { UnavailableError } from "../../domain/errors.ts";
import { instantFromMillis } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { unlessLate } from "../../runtime/lifecycle/abort.ts";
import type { Listed, ListQuery } from "../lists/list.ts";
import { readEventsAt } from "./jobEvents.sql.ts";
import type { JobEvent } from "./jobEvents.sql.ts";

/** The states of jobs as BullMQ names them, the most urgent first. */
export const JOB_STATES = ["failed", "active", "waiting", "delayed", "completed"] as const;
export type JobState = (typeof JOB_STATES)[number];

interface Job {
  readonly id?: string | undefined;
  readonly data: unknown;
  readonly attemptsMade: number;
  readonly failedReason?: string | undefined;
  /** When it was added, milliseconds since 1970, like the next two. */
  readonly timestamp: number;
  readonly processedOn?: number | undefined;
  readonly finishedOn?: number | undefined;
  retry(state: "failed"): Promise<void>;
}

/** What the pages need of a BullMQ `Queue`, on either backend. */
export interface JobQueue {
  getJobs(states: JobState[], start: number, end: number): Promise<(Job | undefined)[]>;
  getJobCounts(...states: JobState[]): Promise<Readonly<Record<string, number>>>;
  getJob(id: string): Promise<Job | undefined>;
  retryJobs(options: { state: "failed" }): Promise<void>;
}

export interface ListedJob extends Listed {
  readonly jobId: string;
  readonly state: JobState;
  readonly attempts: number;
  readonly addedAt: Instant;
  /** When it was last begun; null: never. */
  readonly begunAt: Instant | null;
  readonly failedReason: string | null;
  /** The first few; `more` says how many there are besides. */
  readonly events: readonly JobEvent[];
  readonly more: number;
}

/** How many events of a job are named. */
const EVENTS_SHOWN = 3;
/** Both servers count with 32 bits. */
const START_MAX = 2_000_000_000;
/** A frozen server does not hold up the page. */
const ANSWER_MS = 3_000;

/** Waits for an answer of the queue's server. Throws UnavailableError. */
export async function askQueue<Answer>(asked: Promise<Answer>): Promise<Answer> {
  const answer = await unlessLate(
    asked.catch((cause: unknown) => {
      throw new UnavailableError(AWAY, { cause });
    }),
    ANSWER_MS,
  );
  if (answer === "late") throw new UnavailableError(AWAY);
  return answer;
}

const AWAY = "The queue's server does not answer. Workers find events without it, some seconds later.";

const contentSchema = z.object({ seqs: z.array(z.int().positive()).optional() });

/**
 * Jobs of one queue in one state, in BullMQ's order. Its lists have no keys, so a position is a number of jobs: while
 * jobs come and go, a page may repeat or leave out some.
 */
export async function readJobs(
  pool: Pool,
  queue: JobQueue,
  { state, after, limit }: Pick<ListQuery, "after" | "limit"> & { state: JobState },
): Promise<ListedJob[]> {
  const start = Math.min(Math.max(0, Math.trunc(Number(after?.[0] ?? 0)) || 0), START_MAX);
  const found = await askQueue(queue.getJobs([state], start, start + limit - 1));
  const jobs = found
    .filter((job) => job !== undefined && job !== null)
    .map((job) => ({ job, ...contentSchema.safeParse(job.data).data }));
  const shown = jobs.flatMap(({ seqs = [] }) => seqs.slice(0, EVENTS_SHOWN));
  const events = shown.length === 0 ? [] : await readEventsAt(pool, shown);
  return jobs.map(({ job, seqs = [] }, index) => ({
    position: [String(start + index + 1)],
    jobId: job.id ?? "",
    state,
    attempts: job.attemptsMade,
    addedAt: instantFromMillis(job.timestamp),
    begunAt: job.processedOn === undefined ? null : instantFromMillis(job.processedOn),
    failedReason: job.failedReason ?? null,
    events: events.filter(({ seq }) => seqs.slice(0, EVENTS_SHOWN).includes(seq)),
    more: Math.max(0, seqs.length - EVENTS_SHOWN),
  }));
}
