import type { Pool } from "../database/database.ts";
import { recordRequests } from "../poll/ledger/providerRequests.sql.ts";
import type { SpentRequests } from "../poll/ledger/providerRequests.sql.ts";
import type { Budget } from "../provider/rate/budget.ts";
import type { RoleDeps } from "./role.ts";

/** A source's view of the budget that it shares, with a count of what it has sent. */
export interface RequestUsage {
  readonly budget: Budget;
  /** Writes down what was sent since the last time; what cannot be written is kept for the next. */
  readonly flush: () => Promise<void>;
}

const FLUSH_EVERY_MS = 20_000;

/** `purpose` stands in for the priority of each request. */
export function trackRequestUsage(deps: {
  readonly budget: Budget;
  readonly pool: Pool;
  readonly sourceId: string;
  readonly purpose?: string;
}): RequestUsage {
  const { budget, pool, sourceId } = deps;
  let sent = new Map<string, SpentRequests>();

  function add(count: SpentRequests): void {
    const key = `${count.policy} ${count.purpose}`;
    const { requests, refused } = sent.get(key) ?? { requests: 0, refused: 0 };
    sent.set(key, { ...count, requests: requests + count.requests, refused: refused + count.refused });
  }

  return {
    budget: {
      ...budget,
      async acquire(request) {
        const permit = await budget.acquire(request);
        const count = { policy: request.policy, purpose: deps.purpose ?? request.priority };
        add({ ...count, requests: 1, refused: 0 });
        return {
          ...permit,
          learn(lesson) {
            if (lesson.refusedForMs !== null) add({ ...count, requests: 0, refused: 1 });
            return permit.learn(lesson);
          },
        };
      },
    },
    async flush() {
      const counts = [...sent.values()];
      if (counts.length === 0) return;
      sent = new Map();
      try {
        await recordRequests(pool, { sourceId, counts });
      } catch (error) {
        counts.forEach(add);
        throw error;
      }
    },
  };
}

/** Has the usages written down now and then, and once more in the end. */
export function saveRequestUsage(
  { clock, logger, shutdown }: Pick<RoleDeps, "clock" | "logger" | "shutdown">,
  usages: readonly RequestUsage[],
): void {
  const closing = new AbortController();
  const flushAll = async () => {
    for (const usage of usages) {
      await usage.flush().catch((error: unknown) => {
        logger.debug({ err: error }, "could not write down what was sent to the provider; it is kept");
      });
    }
  };
  const running = (async () => {
    while (!closing.signal.aborted) {
      await clock.sleep(FLUSH_EVERY_MS, closing.signal).catch(() => undefined);
      await flushAll();
    }
  })();
  shutdown.onShutdown("request usage", async () => {
    closing.abort();
    await running;
  });
}
