import type { Processor, Queue, QueueOptions, Worker, WorkerOptions } from "bullmq";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import type { Hints } from "../hints/hints.ts";

export type JobProcessor<Content> = Processor<Content, void>;

export interface QueueProblem {
  readonly problem: string;
  readonly fix: string;
}

/** Gets every error of a connection, even transient ones; BullMQ and ioredis would print them otherwise. */
export type OnQueueError = (error: Error) => void;

interface OpenWorker<Content> {
  readonly worker: Worker<Content, void>;
  /** Breaks the worker's connections without waiting; for a worker that does not end. */
  readonly cut: () => void | Promise<void>;
}

export interface BackendDeps {
  readonly name: string;
  readonly options: Omit<QueueOptions, "connection">;
  readonly onError: OnQueueError;
  readonly clock: Clock;
}

/** What differs between the two places of the queue. Nothing uses what only BullMQ's Redis classes have. */
export interface QueueBackend<Content> {
  readonly queue: Queue<Content, void>;
  readonly hints: Hints;
  /** False if nothing could be delivered now; checked before every attempt, so that none has to time out. */
  isReachable(): boolean;
  openWorker(
    process: JobProcessor<Content>,
    options: Omit<WorkerOptions, "connection">,
  ): Promise<OpenWorker<Content>>;
  check(): Promise<readonly QueueProblem[]>;
  /** Breaks the queue's own connections; the workers have their own. */
  readonly cut: () => Promise<void>;
}
