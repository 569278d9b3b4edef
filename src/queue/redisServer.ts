import { once } from "node:events";
import type { Cluster, ClusterOptions, Redis, RedisOptions } from "ioredis";
import type { QueuePlace, QueueProblem, QueueServer } from "./queueServer.ts";
import { bullmq, ioredis } from "./packages.ts";

const ANSWER_DEADLINE_MS = 2_000;
const ANY = {
  // By INFO, which managed servers forbid. A server that still loads its data refuses commands.
  enableReadyCheck: false,
  // A primary that became a replica keeps its connections, while its address leads to the new primary. The refused
  // command is not sent again.
  reconnectOnError: (error: Error) => (error.message.startsWith("READONLY") ? 1 : false),
} as const satisfies RedisOptions;

/**
 * Settings of the connection that delivers jobs: every command ends within a second, even if the server is frozen or
 * the connection half open, which `enableOfflineQueue: false` alone does not ensure.
 */
const HANDING_OVER = {
  ...ANY,
  commandTimeout: 1_000,
  socketTimeout: 1_500,
  connectTimeout: 2_000,
  maxRetriesPerRequest: 1,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
} as const satisfies RedisOptions;

/** A worker's commands wait for Redis. It asks every 5 s, so a connection silent for 30 s is dead. */
const WORKING = { ...ANY, maxRetriesPerRequest: null, socketTimeout: 30_000 } as const satisfies RedisOptions;

/** Does not wait for Redis: while it is away, no jobs are enqueued and workers wait; both recover. */
export function useRedis(
  { redisUrls, mirrorId }: Pick<QueuePlace, "redisUrls" | "mirrorId">,
  onError: (error: Error) => void,
): QueueServer {
  // In braces, so that a cluster stores all keys of the queue on one node, where its scripts can reach them.
  const prefix = `{order-mirror:${mirrorId}}`;
  return {
    classes: bullmq,
    connect(user) {
      const connection = connectRedis(redisUrls, user === "queue" ? HANDING_OVER : WORKING, onError);
      return {
        // The version is requested once and the answer cached forever, even if it is a timeout or a refusal.
        options: { connection, prefix, skipVersionCheck: true },
        isReachable: () => connection.status === "ready",
        check: () => checkRedis(connection, `${prefix}:probe`),
        cut: () => Promise.resolve(connection.disconnect()),
      };
    },
  };
}

/** Refusals, by their beginning or the code of a broken connection: the problem, and what to do. */
const REFUSALS: readonly (readonly [RegExp, string, string])[] = [
  [/^READONLY/, "Redis is a read-only replica, so it takes no jobs.", "Let REDIS_URL lead to the primary."],
  [
    /^OOM/,
    "Redis is full, so it takes no jobs.",
    "Raise its maxmemory, or remove what else is stored there.",
  ],
  [/^MISCONF/, "Redis takes no jobs, as it cannot write to its disk.", "Its log says why; free space there."],
  [/^(?:WRONGPASS|NOAUTH)/, "Redis refuses the user or password of REDIS_URL.", "Correct REDIS_URL."],
  [
    /NOPERM|can't (?:run|access)/,
    "The login of REDIS_URL lacks a right that the queue needs.",
    "Allow it all commands but the dangerous ones, on its keys: ~{order-mirror:* +@all -@dangerous.",
  ],
  [
    /CERT|SELF_SIGNED|UNABLE_TO_VERIFY/,
    "The certificate of Redis is not one that this machine trusts.",
    "For a private authority, set NODE_EXTRA_CA_CERTS to the file with its certificate.",
  ],
];
const ONE_OF_SEVERAL: QueueProblem = {
  problem: "Redis is a node of a cluster, but REDIS_URL names only one.",
  fix: "List several of its nodes, comma separated; listing the same one twice is enough.",
};

/** The problem behind an error of Redis; undefined for one that says no more than that it does not answer. */
function explainRefusal(error: unknown, isCluster: boolean): QueueProblem | undefined {
  const { message = "", code = "" } = error as { message?: string; code?: string };
  if (!isCluster && /^(?:MOVED|CLUSTERDOWN)/.test(message)) return ONE_OF_SEVERAL;
  const found = REFUSALS.find(([pattern]) => pattern.test(message) || pattern.test(code));
  return found && { problem: found[1], fix: found[2] };
}

/**
 * The problems of the Redis behind the queue. It takes jobs if a script can write there; what INFO tells besides is
 * read where the login may.
 */
async function checkRedis(client: RedisClient, key: string): Promise<readonly QueueProblem[]> {
  try {
    const signal = AbortSignal.timeout(ANSWER_DEADLINE_MS);
    if (client.status !== "ready") await once(client, "ready", { signal });
    await client.eval("return redis.call('set', KEYS[1], '', 'ex', 60)", 1, key);
  } catch (error) {
    const problem = explainRefusal(error, client instanceof ioredis.Cluster);
    if (problem === undefined) throw error;
    return [problem];
  }
  return listDoubts(client).catch(() => []);
}

/** Lists settings by which a server may lose jobs; rejects if the login may not read INFO. Many forbid CONFIG. */
async function listDoubts(client: RedisClient): Promise<readonly QueueProblem[]> {
  const nodes = client instanceof ioredis.Cluster ? client.nodes("master") : [client];
  const answers = await Promise.all(nodes.map((node) => node.info()));
  const policies = answers.map((answer) => /^maxmemory_policy:(\S+)/m.exec(answer)?.[1]);
  // Hosted servers may hide it.
  const evicting = policies.find((policy) => (policy ?? "noeviction") !== "noeviction");
  if (evicting === undefined) return [];
  const problem = `Redis may throw away jobs: its maxmemory-policy is ${evicting}.`;
  return [{ problem, fix: "Set maxmemory-policy to noeviction." }];
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
