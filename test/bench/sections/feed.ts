import { parseInstant } from "../../../src/domain/order/instant.ts";
import { FEED_BEGINNING, readChanges, readFeedFence } from "../../../src/changes/changeFeed.sql.ts";
import type { FeedCursor } from "../../../src/changes/changeFeed.sql.ts";
import type { Pool } from "../../../src/database/database.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { at, makeSnapshot, readAt } from "../../support/mirror/orders.ts";
import type { Bench } from "../bench.ts";
import { amount } from "../effort.ts";
import { compare } from "../measure.ts";
import type { Sample } from "../measure.ts";
import { makeEnvironment, startRole } from "../roles.ts";

const ORDERS = amount(5_000);
const CHANGES_PER_ORDER = 4;
const PAGE = 500;

/** Reading the whole change feed page by page through the read API, compared with its bare statement. */
export const benchFeed: Bench = async ({ pool, databaseUrl, onEnd }) => {
  await makeChanges(pool);
  const web = await startRole("web", makeEnvironment({ databaseUrl }));
  onEnd(web.stop);
  return compare({
    section: "feed",
    unit: "changes/s",
    subjects: [
      { name: `GET /v1/changes, pages of ${PAGE}, one reader`, run: () => readAll(String(web.greeting)) },
    ],
    limit: { name: "limit: the statement for the same pages", run: () => readStatement(pool) },
  });
};

async function makeChanges(pool: Pool): Promise<void> {
  const apply = makeLiveApply(pool);
  for (let change = 0; change < CHANGES_PER_ORDER; change += 1) {
    const updatedAt = at(change + 1);
    const snapshots = Array.from({ length: ORDERS }, (_, order) =>
      makeSnapshot({ reference: `R${order}`, updatedAt, more: { note: "x".repeat(300) } }),
    );
    const requestedAt = parseInstant(updatedAt);
    await apply.applyReads({ sourceId: "live", via: "poll", snapshots, time: readAt(requestedAt) });
  }
}

async function readAll(base: string): Promise<Sample> {
  const startedMs = performance.now();
  let changes = 0;
  let after = "";
  for (let more = true; more;) {
    const answer = await fetch(`${base}/v1/changes?limit=${PAGE}&after=${after}`);
    const page = (await answer.json()) as { data: unknown[]; hasMore: boolean; next: string };
    changes += page.data.length;
    [after, more] = [page.next, page.hasMore];
  }
  return toSample(changes, startedMs);
}

async function readStatement(pool: Pool): Promise<Sample> {
  const startedMs = performance.now();
  let changes = 0;
  let after: FeedCursor = FEED_BEGINNING;
  for (let more = true; more;) {
    const fence = await readFeedFence(pool);
    const page = await readChanges(pool, { sourceId: "live", after, fence, limit: PAGE });
    changes += page.changes.length;
    const last = page.changes.at(-1);
    if (last !== undefined) after = { epoch: page.epoch, position: last.position, digest: last.digest };
    more = page.hasMore;
  }
  return toSample(changes, startedMs);
}

/** A missing change is an error. */
function toSample(changes: number, startedMs: number): Sample {
  const errors = ORDERS * CHANGES_PER_ORDER - changes;
  return { value: changes / ((performance.now() - startedMs) / 1_000), errors };
}
