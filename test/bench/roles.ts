import { canStartRedis, startRedis } from "../support/servers/redis.ts";
import { WEBHOOK_SECRET } from "../support/signing/webhooks.ts";
import type { BenchDeps } from "./bench.ts";
import { startChild } from "./children.ts";
import type { Child } from "./children.ts";

/** The variables of a process of the product with the single source `live`. */
export function makeEnvironment(options: { databaseUrl: string; redisUrl?: string | undefined }) {
  const { databaseUrl, redisUrl } = options;
  return {
    DATABASE_URL: databaseUrl,
    ...(redisUrl === undefined ? {} : { REDIS_URL: redisUrl }),
    // Nothing answers there, and nothing is requested.
    DELIVERY_BASE_URL: "http://127.0.0.1:9",
    DELIVERY_LIVE_API_KEY: "dos_live_sandbox",
    DELIVERY_LIVE_WEBHOOK_SECRETS: WEBHOOK_SECRET,
    PORT: "0",
    // The read API answers without a token.
    LOCAL_TRUST: "true",
    LOG_LEVEL: "warn",
  };
}

export function startRole(role: "web" | "worker" | "receiver", env: Record<string, string>): Promise<Child> {
  return startChild("roleProcess.ts", { args: [role], env });
}

/**
 * Starts a queue and returns the variables of the processes that use it; it ends with the section. Undefined, with a
 * notice, if it cannot be started here.
 */
async function startQueue(queue: "Redis" | "Postgres", { databaseUrl, onEnd }: BenchDeps) {
  if (queue === "Redis" && !canStartRedis) {
    process.stderr.write("NOT MEASURED: the queue in Redis. There is no redis-server.\n");
    return undefined;
  }
  const redis = queue === "Redis" ? await startRedis() : undefined;
  onEnd(async () => redis?.stop());
  return makeEnvironment({ databaseUrl, redisUrl: redis?.url });
}

/** The same with a web and a worker process that use it, which also end with the section. */
export async function startWithQueue(queue: "Redis" | "Postgres", deps: BenchDeps) {
  const env = await startQueue(queue, deps);
  if (env === undefined) return undefined;
  const web = await startRole("web", env);
  deps.onEnd(web.stop);
  const worker = await startRole("worker", env);
  deps.onEnd(worker.stop);
  return { env, web, worker };
}

/** The webhook address of the source `live`. */
export function webhookAddress(web: Child): string {
  return `${String(web.greeting)}/webhooks/live`;
}
