import { once } from "node:events";
import type { Cluster, ClusterOptions, Redis, RedisOptions } from "ioredis";
import type { QueueProblem, QueueServer } from "./backend.ts";
import { bullmq, ioredis } from "./packages.ts";

const ANSWER_DEADLINE_MS = 2_000;
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
export function useRedis(redisUrls: readonly string[], onError: (error: Error) => void): QueueServer {
  return {
    classes: bullmq,
    connect(user) {
      const connection = connectRedis(redisUrls, user === "queue" ? HANDING_OVER : WORKING, onError);
      return {
        // The version is requested once and the answer cached forever, even if it is a timeout.
        options: { connection, prefix: KEY_PREFIX, skipVersionCheck: user === "queue" },
        isReachable: () => connection.status === "ready",
        check: () => checkRedis(connection),
        cut: () => Promise.resolve(connection.disconnect()),
      };
    },
  };
}

/** The problems of the Redis behind the queue. Reads INFO only: hosted servers often forbid CONFIG. */
async function checkRedis(client: RedisClient): Promise<readonly QueueProblem[]> {
  const signal = AbortSignal.timeout(ANSWER_DEADLINE_MS);
  if (client.status !== "ready") await once(client, "ready", { signal });
  const isCluster = client instanceof ioredis.Cluster;
  const nodes = isCluster ? client.nodes("master") : [client];
  const answers = await Promise.all(nodes.map((node) => node.info()));
  const read = (name: string) =>
    answers.map((answer) => new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(answer)?.[1]);
  const problems: QueueProblem[] = [];
  // Hosted servers may hide it.
  const evicting = read("maxmemory_policy").find((policy) => (policy ?? "noeviction") !== "noeviction");
  if (evicting !== undefined) {
    problems.push({
      problem: `Redis may throw away jobs: its maxmemory-policy is ${evicting}.`,
      fix: "Set maxmemory-policy to noeviction.",
    });
  }
  if (!isCluster && read("redis_mode").includes("cluster")) {
    problems.push({
      problem: "Redis is a node of a cluster, but REDIS_URL names only one.",
      fix: "List several of its nodes, comma separated; listing the same one twice is enough.",
    });
  }
  return problems;
}

type RedisClient = Redis | Cluster;
/** Without options that change the format of answers, which BullMQ relies on. */
type ClientOptions = Omit<RedisOptions, "replyMapping">;

/** Reconnects by itself. One address is a server, several are a cluster's. */
function connectRedis(
  redisUrls: readonly string[],
  options: ClientOptions,
  onError: (error: Error) => void,
): RedisClient {
  const [first = "", ...others] = redisUrls;
  const client = others.length > 0 ? connectCluster(redisUrls, options) : new ioredis.Redis(first, options);
  // It reconnects automatically; without a listener every failed attempt would be printed.
  client.on("error", onError);
  return client;
}

function connectCluster(redisUrls: readonly string[], options: ClientOptions): Cluster {
  // All servers have the same login, given in the first address; those that it names have only host and port.
  const { protocol, username, password } = new URL(redisUrls[0] ?? "");
  const { enableOfflineQueue = true, ...nodeOptions } = options;
  const login = { username: decodeURIComponent(username), password: decodeURIComponent(password) };
  const isTls = protocol === "rediss:";
  return new ioredis.Cluster([...redisUrls], {
    enableOfflineQueue,
    redisOptions: { ...nodeOptions, ...(password !== "" && login), ...(isTls && { tls: {} }) },
    // Certificates are issued for host names: TLS must see the name, not its address.
    ...(isTls && { dnsLookup: ((name, done) => done(null, name)) as ClusterOptions["dnsLookup"] }),
  });
}
