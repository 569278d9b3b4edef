import { afterAll, expect, vi } from "vitest";
import type { Pool } from "../../../src/database/database.ts";
import { makeNews } from "../../../src/api/news.ts";
import { makeApiRouter, type ApiDeps } from "../../../src/api/router.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { openTestDatabase } from "../servers/database.ts";
import { serve } from "../http/serve.ts";

/** The read API over `pool`, open to this machine unless `apiTokens` are given. */
export function makeTestApi(deps: { pool: Pool } & Partial<ApiDeps>) {
  const common = { clock: systemClock, logger: silentLogger };
  const sources = [{ sourceId: "live" }, { sourceId: "test" }];
  return makeApiRouter({
    exportPool: deps.pool,
    news: makeNews(systemClock),
    sources,
    apiTokens: [],
    localTrust: true,
    ...common,
    ...deps,
  });
}

/** The read API for this test file, open to this machine, over its own database; `url` has no slash at the end. */
export async function startTestApi() {
  const { database, pool } = await openTestDatabase({ purpose: "read", max: 2, statementTimeoutMs: 5_000 });
  const server = await serve(makeTestApi({ pool }));
  afterAll(() => server.close());
  /** Asks, and resolves when the mirror has looked at least once in vain: the second look begins after the first. */
  async function whileLooking<Answer>(ask: () => Promise<Answer>): Promise<{ answer: Promise<Answer> }> {
    const query = vi.spyOn(pool, "query");
    const looks = () =>
      query.mock.calls.filter(([asked]) => (asked as { name?: string }).name === "find-arrived");
    const answer = ask();
    await vi.waitFor(() => expect(looks().length).toBeGreaterThan(1), { timeout: 20_000 });
    query.mockRestore();
    return { answer };
  }
  return { url: server.url, database, pool, whileLooking };
}
