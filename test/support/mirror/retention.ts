import { instantFromMillis } from "../../../src/domain/order/instant.ts";
import type { Pool } from "../../../src/database/database.ts";
import { removeOld, type RetentionRule } from "../../../src/retention/retention.sql.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";

export const DAY_MS = 86_400_000;

/** One pass of each rule, without the pauses between its steps; returns what all of them examined and removed. */
export async function removeOlder(
  pool: Pool,
  rules: readonly RetentionRule[],
  { keptDays, limit, renew }: { keptDays: number; limit?: number; renew?: () => Promise<boolean> },
): Promise<{ looked: number; removed: number }> {
  const deps = {
    pool,
    clock: { ...systemClock, sleep: () => Promise.resolve() },
    logger: silentLogger,
    signal: new AbortController().signal,
    renew: renew ?? (() => Promise.resolve(true)),
  };
  const cutoff = instantFromMillis(Date.now() - keptDays * DAY_MS);
  const total = { looked: 0, removed: 0 };
  for (const rule of rules) {
    const one = await removeOld(
      deps,
      { what: "test", rule },
      { cutoff, ...(limit !== undefined && { limit }) },
    );
    total.looked += one.looked;
    total.removed += one.removed;
  }
  return total;
}
