import type { Processor, Queue, QueueOptions, Worker, WorkerOptions } from "bullmq";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import type { Hints } from "../hints/hints.ts";

export type JobProcessor<Content> = Processor<Content, void>;

/** What may be said against the queue's server; each names its remedy. */
export interface QueueProblem {
  readonly problem: string;
  readonly fix: string;
}

/**
 * Called with every error on a connection of the queue, also of those that pass by themselves. Without a listener BullMQ
 * and ioredis would print them.
 */
export type OnQueueError = (error: Error) => void;

/** A worker and its connections. */
interface OpenWorker<Content> {
  readonly worker: Worker<Content, void>;
  /** Breaks the worker's connections without waiting for anything; for one that does not end by itself. */
  readonly cut: () => void | Promise<void>;
}

export interface BackendDeps {
  /** Name of the queue. */
  readonly name: string;
  readonly options: Omit<QueueOptions, "connection">;
  readonly onError: OnQueueError;
  readonly clock: Clock;
}

/**
 * What differs between the two places where the queue may be kept; everything else is the same code.
 *
 * The types are those of BullMQ's Redis classes, as bull-board wants them; nothing here or there uses what only
 * Redis has.
 */
export interface QueueBackend<Content> {
  readonly queue: Queue<Content, void>;
  readonly hints: Hints;
  /** False when a job or a hint could not be handed over now; asked before every try, so that none has to time out. */
  isReachable(): boolean;
  openWorker(
    process: JobProcessor<Content>,
    options: Omit<WorkerOptions, "connection">,
  ): Promise<OpenWorker<Content>>;
  check(): Promise<readonly QueueProblem[]>;
  /** Breaks the queue's own connections; the workers' are theirs. */
  readonly cut: () => Promise<void>;
}
