import type { QueueOptions } from "bullmq";
import type { bullmq } from "./packages.ts";

/** The differences between the two places of a queue. Nothing uses what only BullMQ's Redis classes have. */
export interface QueueServer {
  readonly classes: Pick<typeof bullmq, "Queue" | "Worker">;
  /** Opens the connections of a queue, or of a worker. */
  readonly connect: (user: "queue" | "worker") => QueueConnection;
}

interface QueueConnection {
  /** For BullMQ: the connection, and what it needs. */
  readonly options: Pick<QueueOptions, "connection" | "prefix" | "skipVersionCheck">;
  /** False if nothing could be delivered now; checked before every attempt, so that none has to time out. */
  readonly isReachable: () => boolean;
  /** Waits until it can be used; only where a server that is away is an error at the start. */
  readonly begin?: (wait: () => Promise<unknown>) => Promise<void>;
  /** The problems of the server. Rejects, some seconds later, if it does not answer. */
  readonly check: () => Promise<readonly QueueProblem[]>;
  /** Breaks the connections. */
  readonly cut: () => Promise<void>;
}

export interface QueueProblem {
  readonly problem: string;
  readonly fix: string;
}

/** The place of the queues, as the configuration says. */
export interface QueuePlace {
  readonly databaseUrl: string;
  /** Empty: the queue is in Postgres. One: a Redis. Several: the nodes of a Redis cluster. */
  readonly redisUrls: readonly string[];
  /** Names the mirror's database: several mirrors may share a Redis. */
  readonly mirrorId: string;
}
