import { afterAll, beforeAll } from "vitest";
import { makeTestDatabase } from "./database.ts";
import type { TestDatabase } from "./database.ts";
import { redisAvailable, startRedis } from "./redis.ts";
import type { TestRedis } from "./redis.ts";

/** Places for the queue, and whether they can be tested here. */
export const QUEUE_BACKENDS = [
  { backend: "Postgres", runs: true },
  { backend: "Redis", runs: redisAvailable },
] as const;

interface QueueServers {
  readonly database: TestDatabase;
  /** Undefined where no Redis is found. */
  readonly redis: TestRedis | undefined;
  /** The queue's settings for this place. */
  readonly redisUrls: (backend: "Postgres" | "Redis") => readonly string[];
}

/** A database and a Redis for all tests of the file, from before the first to after the last. */
export function useQueueServers(): QueueServers {
  let database: TestDatabase | undefined;
  let redis: TestRedis | undefined;
  beforeAll(async () => {
    database = await makeTestDatabase();
    if (redisAvailable) redis = await startRedis();
  });
  afterAll(async () => {
    await redis?.stop();
    await database?.drop();
  });
  return {
    get database() {
      if (database === undefined) throw new TypeError("the database is there from beforeAll on");
      return database;
    },
    get redis() {
      return redis;
    },
    redisUrls: (backend) => (backend === "Redis" && redis ? [redis.url] : []),
  };
}
