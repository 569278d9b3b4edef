import { afterAll, expect, vi } from "vitest";
import type { Pool } from "../../../src/database/database.ts";
import { makeNews } from "../../../src/api/news.ts";
import { makeApiRouter, type ApiDeps } from "../../../src/api/router.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { openTestDatabase } from "../servers/database.ts";
import { serve } from "../http/serve.ts";
import {
  ALL_ADDRESSES,
  composeMirror,
  type MirrorDeps,
  type Parts,
} from "../../../src/mirror/createMirror.ts";
import { serve as serveMirror } from "../../../src/mirror/serve.ts";
import { createMirrorClient } from "../../../src/client/mirrorClient.ts";
import { ProviderError } from "../../../src/provider/errors.ts";

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

/** A mirror as the product composes it, with these parts, served at the host and port of its configuration. */
export async function openServedMirror(deps: Omit<MirrorDeps, "logger">, parts: Parts = {}) {
  const mirror = composeMirror({ ...deps, logger: silentLogger }, ALL_ADDRESSES);
  const server = await serveMirror(mirror, deps.config, silentLogger);
  await mirror.start(parts);
  return {
    url: server.url,
    close: async () => void (await Promise.all([mirror.close(), server.close()])),
  };
}

const RETRY_MS = 200;

/** Follows the feed of the mirror at `url` from the beginning, with the product's own client. */
export function followFeed(url: string) {
  const mirror = createMirrorClient({ baseUrl: url });
  /** Number, reference and revision of each, in the sequence of arrival. */
  const changes: string[] = [];
  const refusals: (number | null)[] = [];
  const stopping = new AbortController();
  const { signal } = stopping;
  let last = "beginning";

  async function read(): Promise<void> {
    for await (const { position, reference, revision } of mirror.changes({ after: last, signal })) {
      last = String(position);
      const [, number = ""] = last.split(".");
      changes.push(`${number} ${reference} ${revision}`);
    }
  }
  async function follow(): Promise<void> {
    while (!signal.aborted) {
      await read().catch((error: unknown) => {
        if (!(error instanceof ProviderError)) throw error;
        refusals.push(error.status);
      });
      await systemClock.sleep(RETRY_MS);
    }
  }
  const following = follow();
  return {
    changes,
    /** What the table has of changes that the reader has not got under their current numbers. */
    async listMissed(read: (sql: string) => Promise<Record<string, unknown>[]>) {
      const rows = await read(
        "select concat_ws(' ', position, reference, revision) as change from mirror.changes",
      );
      return rows.map(({ change }) => String(change)).filter((change) => !changes.includes(change));
    },
    /** Answers that asked the reader to start again or reported a mistake of the reader. */
    refusals,
    async stop() {
      stopping.abort();
      await following;
    },
  };
}
