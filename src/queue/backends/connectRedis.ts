import type { Cluster, Redis, RedisOptions } from "ioredis";
import type { OnQueueError } from "./backend.ts";
import { ioredis } from "./packages.ts";
import { literalAddress } from "../../runtime/http/privateAddress.ts";

export type RedisClient = Redis | Cluster;
/** Without options that change the format of answers, which BullMQ relies on. */
type ClientOptions = Omit<RedisOptions, "replyMapping">;

const REDIS_PORT = 6_379;
const SENTINEL_PORT = 26_379;
const SENTINEL_PROTOCOL = "redis+sentinel:";
const RECONNECT_AFTER_MAX_MS = 1_000;
const reconnectAfterMs = (attempt: number) => Math.min(attempt * 100, RECONNECT_AFTER_MAX_MS);

/** Reconnects by itself. One address is a server, several are a cluster's, `redis+sentinel:` are sentinels. */
export function connectRedis(
  redisUrls: readonly string[],
  options: ClientOptions,
  onError: OnQueueError,
): RedisClient {
  const client = openClient(redisUrls, options);
  // It reconnects automatically; without a listener every failed attempt would be printed.
  client.on("error", onError);
  return client;
}

function openClient(redisUrls: readonly string[], options: ClientOptions): RedisClient {
  const [first, ...others] = redisUrls;
  if (first === undefined) throw new TypeError("no address of a Redis given");
  if (new URL(first).protocol === SENTINEL_PROTOCOL) return connectBySentinels(redisUrls, options);
  if (others.length > 0) return connectCluster(redisUrls, options);
  return new ioredis.Redis(first, { ...options, retryStrategy: reconnectAfterMs });
}

function connectBySentinels(redisUrls: readonly string[], options: ClientOptions): Redis {
  return new ioredis.Redis({
    ...options,
    ...readLogin(redisUrls),
    sentinels: readNodes(redisUrls, SENTINEL_PORT),
    name: decodeURIComponent(new URL(redisUrls[0] ?? "").pathname.slice(1)),
    // A silent sentinel must not delay the question to the next one.
    sentinelCommandTimeout: 1_000,
    retryStrategy: reconnectAfterMs,
    sentinelRetryStrategy: reconnectAfterMs,
    // A demoted master answers READONLY: ask the sentinels again.
    reconnectOnError: (error) => error.message.startsWith("READONLY"),
  });
}

function connectCluster(redisUrls: readonly string[], options: ClientOptions): Cluster {
  const isTls = redisUrls.some((address) => new URL(address).protocol === "rediss:");
  const { enableOfflineQueue = true, ...nodeOptions } = options;
  return new ioredis.Cluster(readNodes(redisUrls, REDIS_PORT), {
    enableOfflineQueue,
    clusterRetryStrategy: reconnectAfterMs,
    redisOptions: { ...nodeOptions, ...readLogin(redisUrls), ...(isTls ? { tls: {} } : {}) },
    // Certificates are issued for host names: TLS must see the name, not its address.
    ...(isTls ? { dnsLookup: (name, done) => done(null, name) } : {}),
  });
}

/** @internal */
export function readNodes(
  redisUrls: readonly string[],
  portByDefault: number,
): { host: string; port: number }[] {
  return redisUrls.map((address) => {
    const url = new URL(address);
    return { host: literalAddress(url) ?? url.hostname, port: Number(url.port || portByDefault) };
  });
}

/** All servers behind these addresses have the same login, given in the first. */
function readLogin([first = ""]: readonly string[]): Pick<RedisOptions, "username" | "password"> {
  const { username, password } = new URL(first);
  return {
    ...(username === "" ? {} : { username: decodeURIComponent(username) }),
    ...(password === "" ? {} : { password: decodeURIComponent(password) }),
  };
}
