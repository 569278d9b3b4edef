import { afterAll } from "vitest";
import { openTestDatabase } from "./database.ts";
import { redisAvailable, startRedis } from "./redis.ts";

/** Places for the queue, and whether they can be tested here. */
export const QUEUE_BACKENDS = [
  { backend: "Postgres", runs: true },
  { backend: "Redis", runs: redisAvailable },
] as const;

/** A database and a Redis for all tests of the file; no Redis where none is found. */
export async function openQueueServers() {
  const { database } = await openTestDatabase();
  const redis = redisAvailable ? await startRedis() : undefined;
  afterAll(() => redis?.stop());
  /** The queue's settings for this place. */
  const redisUrls = (backend: "Postgres" | "Redis") => (backend === "Redis" && redis ? [redis.url] : []);
  return { database, redis, redisUrls };
}
