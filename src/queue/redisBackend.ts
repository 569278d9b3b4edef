import { Queue, Worker } from "bullmq";
import { Cluster, Redis } from "ioredis";
import type { RedisOptions } from "ioredis";
import type { BackendDeps, OnQueueError, QueueBackend } from "./backend.ts";
import { checkRedis } from "./checkRedis.ts";

/** In braces, so that a cluster keeps all keys of the queue on one node, where its scripts can reach them. */
const KEY_PREFIX = "{order-mirror}";

const REDIS_PORT = 6_379;
const RECONNECT_AFTER_MAX_MS = 1_000;
const reconnectAfterMs = (attempt: number) => Math.min(attempt * 100, RECONNECT_AFTER_MAX_MS);

/**
 * Of the connection that hands over jobs: every command ends within a second, also when the server is frozen or
 * the connection half open, which `enableOfflineQueue: false` alone does not achieve.
 */
const HANDING_OVER = {
  commandTimeout: 1_000,
  socketTimeout: 1_500,
  connectTimeout: 2_000,
  maxRetriesPerRequest: 1,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
} as const satisfies RedisOptions;

/**
 * Of a worker: its commands wait for as long as Redis is away. It asks for work every 5 s, so a connection that is
 * silent for 30 s is dead.
 */
const WORKING = { maxRetriesPerRequest: null, socketTimeout: 30_000 } as const satisfies RedisOptions;

type Client = Redis | Cluster;
type Purpose = typeof HANDING_OVER | typeof WORKING;

/**
 * The queue in Redis or a Redis cluster. Does not wait for it: while Redis is away, jobs are not rung, workers
 * wait, and both recover by themselves.
 */
export function openRedisBackend<Content>(
  deps: BackendDeps & { readonly redisUrls: readonly string[] },
): QueueBackend<Content> {
  const { redisUrls, name, options, onError } = deps;
  const client = connect(redisUrls, HANDING_OVER, onError);
  const queue = new Queue<Content, void>(name, {
    ...options,
    connection: client,
    prefix: KEY_PREFIX,
    // The version is asked once and the answer remembered for ever, also when it is that the command timed out.
    skipVersionCheck: true,
  });
  queue.on("error", onError);
  return {
    queue,
    isReachable: () => client.status === "ready",
    openWorker(process, workerOptions) {
      const workerClient = connect(redisUrls, WORKING, onError);
      const copies = watchCopies(workerClient, onError);
      const worker = new Worker<Content, void>(name, process, {
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

function connect(redisUrls: readonly string[], options: Purpose, onError: OnQueueError): Client {
  const [first, ...others] = redisUrls;
  if (first === undefined) throw new TypeError("no address of a Redis given");
  const client =
    others.length === 0
      ? new Redis(first, { ...options, retryStrategy: reconnectAfterMs })
      : connectCluster(redisUrls, options);
  // It reconnects by itself; without a listener every failed try would be printed.
  client.on("error", onError);
  return client;
}

function connectCluster(redisUrls: readonly string[], options: Purpose): Cluster {
  const nodes = redisUrls.map((address) => new URL(address));
  const { username, password, protocol } = nodes[0] ?? new URL("redis://127.0.0.1");
  const { enableOfflineQueue, ...nodeOptions } = { enableOfflineQueue: true, ...options };
  return new Cluster(
    nodes.map((node) => ({ host: node.hostname, port: Number(node.port || REDIS_PORT) })),
    {
      enableOfflineQueue,
      clusterRetryStrategy: reconnectAfterMs,
      redisOptions: {
        ...nodeOptions,
        ...(username === "" ? {} : { username: decodeURIComponent(username) }),
        ...(password === "" ? {} : { password: decodeURIComponent(password) }),
        ...(protocol === "rediss:" ? { tls: {} } : {}),
      },
      // Certificates are made out to host names: let TLS see the name and not the address that it stands for.
      ...(protocol === "rediss:" ? { dnsLookup: (name, done) => done(null, name) } : {}),
    },
  );
}

/** BullMQ copies a worker's connection, to wait for jobs on the copy; that one must be cut with it. */
function watchCopies(client: Client, onError: OnQueueError): readonly Client[] {
  const copies: Client[] = [];
  const duplicate = client.duplicate.bind(client) as (...args: unknown[]) => Client;
  const watched = (...args: unknown[]) => {
    const copy = duplicate(...args);
    copy.on("error", onError);
    copies.push(copy);
    return copy;
  };
  Object.assign(client, { duplicate: watched });
  return copies;
}
