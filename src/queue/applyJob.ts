import { z } from "zod";

/** Name of the one queue; with the prefix it makes the keys in Redis, `{order-mirror}:apply:…`. */
export const APPLY_QUEUE = "apply";

/** At most this many inbox positions in one job; a full one is followed by the next at once. */
export const JOB_SEQS_MAX = 1_000;

/** What a job carries: where the events lie, nothing of what is in them. */
export interface ApplyJob {
  readonly seqs: readonly number[];
}

const applyJobSchema = z.object({ seqs: z.array(z.int().positive()).min(1).max(10_000) });

/** The inbox positions of a job, or undefined when someone else put it into the queue. */
export function readApplyJob(content: unknown): readonly number[] | undefined {
  const result = applyJobSchema.safeParse(content);
  return result.success ? result.data.seqs : undefined;
}
