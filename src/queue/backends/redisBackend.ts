import type { RedisOptions } from "ioredis";
import type { BackendDeps, OnQueueError, QueueBackend } from "./backend.ts";
import { checkRedis } from "./checkRedis.ts";
import { connectRedis } from "./connectRedis.ts";
import type { RedisClient } from "./connectRedis.ts";
import { bullmq } from "./packages.ts";
import { makeRedisHints } from "../hints/redisHints.ts";

/** In braces, so that a cluster stores all keys of the queue on one node, where its scripts can reach them. */
const KEY_PREFIX = "{order-mirror}";

/**
 * Settings of the connection that delivers jobs: every command ends within a second, even if the server is frozen or
 * the connection half open, which `enableOfflineQueue: false` alone does not ensure.
 */
const HANDING_OVER = {
  commandTimeout: 1_000,
  socketTimeout: 1_500,
  connectTimeout: 2_000,
  maxRetriesPerRequest: 1,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
} as const satisfies RedisOptions;

/** A worker's commands wait for Redis. It asks every 5 s, so a connection silent for 30 s is dead. */
const WORKING = { maxRetriesPerRequest: null, socketTimeout: 30_000 } as const satisfies RedisOptions;

/** Does not wait for Redis: while it is away, no jobs are enqueued and workers wait; both recover. */
export function openRedisBackend<Content>(
  deps: BackendDeps & { readonly redisUrls: readonly string[] },
): QueueBackend<Content> {
  const { redisUrls, name, options, onError, clock } = deps;
  const client = connectRedis(redisUrls, HANDING_OVER, onError);
  const queue = new bullmq.Queue<Content, void>(name, {
    ...options,
    connection: client,
    prefix: KEY_PREFIX,
    // The version is requested once and the answer cached forever, even if it is a timeout.
    skipVersionCheck: true,
  });
  queue.on("error", onError);
  return {
    queue,
    hints: makeRedisHints({
      key: `${KEY_PREFIX}:${name}:hints`,
      client,
      connect: () => connectRedis(redisUrls, WORKING, onError),
      clock,
    }),
    isReachable: () => client.status === "ready",
    openWorker(process, workerOptions) {
      const workerClient = connectRedis(redisUrls, WORKING, onError);
      const copies = watchCopies(workerClient, onError);
      const worker = new bullmq.Worker<Content, void>(name, process, {
        ...workerOptions,
        connection: workerClient,
        prefix: KEY_PREFIX,
      });
      worker.on("error", onError);
      const cut = () => {
        for (const open of [workerClient, ...copies]) open.disconnect();
      };
      return Promise.resolve({ worker, cut });
    },
    check: () => checkRedis(client),
    cut() {
      client.disconnect();
      return Promise.resolve();
    },
  };
}

/** BullMQ copies a worker's connection to wait for jobs; the copy must be cut with it. */
function watchCopies(client: RedisClient, onError: OnQueueError): readonly RedisClient[] {
  const copies: RedisClient[] = [];
  const duplicate = client.duplicate.bind(client) as (...args: unknown[]) => RedisClient;
  const watched = (...args: unknown[]) => {
    const copy = duplicate(...args);
    copy.on("error", onError);
    copies.push(copy);
    return copy;
  };
  Object.assign(client, { duplicate: watched });
  return copies;
}
