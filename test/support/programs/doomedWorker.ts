/**
 * A worker process that takes a job, prints that, and then neither finishes nor fails: for tests that kill it.
 * Usage: node --import tsx doomedWorker.ts DATABASE_URL [REDIS_URL]
 */
import { makeApplyQueue } from "../../../src/queue/applyQueue.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { SHORT_LIVED_WORKER } from "../servers/redis.ts";

const [databaseUrl = "", ...redisUrls] = process.argv.slice(2);
const queue = await makeApplyQueue({
  mirrorId: "test",
  databaseUrl,
  redisUrls,
  logger: silentLogger,
  overrides: { workerOptions: SHORT_LIVED_WORKER },
});
await queue.consume((seqs) => {
  process.stdout.write(`took ${seqs.join(",")}\n`);
  return new Promise(() => undefined);
});
process.stdout.write("ready\n");
