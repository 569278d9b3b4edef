import { WEBHOOK_SECRET } from "../support/signing/webhooks.ts";
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

/** The webhook address of the source `live`. */
export function webhookAddress(web: Child): string {
  return `${String(web.greeting)}/webhooks/live`;
}
