import { z } from "zod";

/** The name of the one queue; with the prefix it forms the keys in Redis, `{order-mirror}:apply:…`. */
export const APPLY_QUEUE = "apply";

/** The maximum number of inbox positions in one job; a full job is followed by the next immediately. */
export const JOB_SEQS_MAX = 1_000;

/** The content of a job: the positions of events, nothing of the events themselves. */
export interface ApplyJob {
  readonly seqs: readonly number[];
}

const applyJobSchema = z.object({ seqs: z.array(z.int().positive()).min(1).max(10_000) });

/** The inbox positions of a job, or undefined if another program put it into the queue. */
export function readApplyJob(content: unknown): readonly number[] | undefined {
  const result = applyJobSchema.safeParse(content);
  return result.success ? result.data.seqs : undefined;
}
