import { readDecisionsAfter, readHistoryMark } from "../../changes/changeTail.sql.ts";
import type { DecisionFilter, DecisionRow, HistoryMark } from "../../changes/changeTail.sql.ts";
import type { Pool } from "../../database/database.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";

const LOOK_INTERVAL_MS = 500;
const PAGE_ROWS = 500;
/** A number is drawn a moment before its transaction has an id, so a mark younger than this is not trusted. */
const MARK_AGE_MIN_MS = 2_000;
/** Twice the limit of any apply statement; beyond it, a foreign transaction is in the way. */
const MARK_AGE_MAX_MS = 30_000;

/**
 * Yields decisions as they are committed, from `after` on, until the signal is aborted.
 *
 * Numbers are drawn before their commit, so a smaller number may appear after a larger one. Recent decisions are
 * therefore read again each time, from the last mark that every transaction of its time has outlived.
 */
export async function* followDecisions(deps: {
  pool: Pool;
  clock: Clock;
  filter: DecisionFilter;
  after: HistoryMark;
  signal: AbortSignal;
}): AsyncGenerator<DecisionRow> {
  const { pool, clock, filter, after, signal } = deps;
  let floor = after.lastId;
  const seen = new Set<bigint>();
  const marks: { mark: HistoryMark; atMs: number }[] = [];
  while (!signal.aborted) {
    const mark = await readHistoryMark(pool);
    marks.push({ mark, atMs: clock.monotonicMs() });
    for await (const decision of readFrom(pool, filter, floor)) {
      if (seen.has(decision.historyId)) continue;
      seen.add(decision.historyId);
      yield decision;
    }
    const isFinal = ({ mark: old, atMs }: (typeof marks)[number]) => {
      const ageMs = clock.monotonicMs() - atMs;
      return ageMs >= MARK_AGE_MAX_MS || (ageMs >= MARK_AGE_MIN_MS && mark.xmin >= old.xmax);
    };
    for (let first = marks[0]; first !== undefined && isFinal(first); first = marks[0]) {
      floor = first.mark.lastId > floor ? first.mark.lastId : floor;
      marks.shift();
    }
    for (const id of seen) if (id <= floor) seen.delete(id);
    await clock.sleep(LOOK_INTERVAL_MS, signal).catch(() => undefined);
  }
}

async function* readFrom(pool: Pool, filter: DecisionFilter, floor: bigint): AsyncGenerator<DecisionRow> {
  let afterId = floor;
  for (;;) {
    const page = await readDecisionsAfter(pool, { ...filter, afterId, limit: PAGE_ROWS });
    yield* page;
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_ROWS) return;
    afterId = last.historyId;
  }
}
