import { expect, onTestFinished, vi } from "vitest";
import { makeApplyQueue, type ApplyQueueDeps } from "../../../src/queue/applyQueue.ts";
import { logInto } from "../run/logInto.ts";

export const PATIENCE = { timeout: 60_000, interval: 20 };

/** A queue with a worker, which end with the test at the latest, and what they log. */
export async function openQueue(place: Partial<Omit<ApplyQueueDeps, "logger">>) {
  const lines: string[] = [];
  const logger = logInto((line) => lines.push(line));
  const queue = await makeApplyQueue({ mirrorId: "test", databaseUrl: "", redisUrls: [], logger, ...place });
  const taken: number[] = [];
  const consumer = await queue.consume(async (seqs) => void taken.push(...seqs));
  let closing: Promise<void> | undefined;
  const close = () => (closing ??= consumer.close().then(() => queue.close()));
  onTestFinished(close);
  /** Notifies until the worker has taken the position, like a stream of events. */
  const notifies = (seq: number) =>
    vi.waitFor(() => {
      queue.notify([seq]);
      expect(taken).toContain(seq);
    }, PATIENCE);
  const logged = (text: string) => vi.waitFor(() => expect(lines.join("")).toContain(text), PATIENCE);
  return { queue, taken, notifies, logged, close };
}
