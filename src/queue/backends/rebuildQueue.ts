import { UnavailableError } from "../../domain/errors.ts";
import { APPLY_QUEUE, JOB_SEQS_MAX } from "../applyJob.ts";
import type { ApplyQueue } from "../applyQueue.ts";
import { unlessLate } from "../../runtime/lifecycle/abort.ts";

const STEP_DEADLINE_MS = 10_000;

/**
 * Empties the queue of waiting and delayed jobs and refills it from `pages` of inbox positions; returns the number of
 * positions. Running jobs continue, because applying an event twice changes nothing.
 *
 * Throws UnavailableError if the queue's server does not answer; it may be repeated.
 */
export async function rebuildQueue(
  { bull }: Pick<ApplyQueue, "bull">,
  pages: AsyncIterable<readonly number[]>,
): Promise<number> {
  await orFail(bull.drain(true));
  let enqueued = 0;
  for await (const seqs of pages) {
    const jobs: { name: string; data: { seqs: readonly number[] } }[] = [];
    for (let start = 0; start < seqs.length; start += JOB_SEQS_MAX) {
      jobs.push({ name: APPLY_QUEUE, data: { seqs: seqs.slice(start, start + JOB_SEQS_MAX) } });
    }
    await orFail(bull.addBulk(jobs));
    enqueued += seqs.length;
  }
  return enqueued;
}

async function orFail(step: Promise<unknown>): Promise<void> {
  if ((await unlessLate(step, STEP_DEADLINE_MS)) !== "late") return;
  throw new UnavailableError("The queue's server does not answer.", {
    fix: "Start it, then run this again. Until then the worker's overdue check applies waiting events.",
  });
}
