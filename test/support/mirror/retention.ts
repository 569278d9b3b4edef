import { addSeconds } from "../../../src/domain/order/instant.ts";
import type { Pool } from "../../../src/database/database.ts";
import { removeAllOld } from "../../../src/retention/retention.sql.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";

const DAY_SECONDS = 86_400;

export interface TestPass {
  /** Each default: for ever. */
  readonly keptFor?: Partial<Parameters<typeof removeAllOld>[1]>;
  /** How far the clock of the pass is ahead, so that younger rows are old for it. */
  readonly aheadDays?: number;
  readonly stepRows?: number;
  readonly renew?: () => Promise<boolean>;
  readonly what?: string;
  /** True: as soon after the last pass that the walks go on where they were; otherwise a day later. */
  readonly sameDay?: boolean;
}

/** A pass of retention without the pauses between its steps; returns what it examined and removed, only of the rules of `what` if given. */
export async function removeOlder(
  pool: Pool,
  { keptFor, aheadDays = 0, stepRows, what, sameDay = false, renew = () => Promise.resolve(true) }: TestPass,
): Promise<{ looked: number; removed: number }> {
  if (!sameDay) await pool.query("update mirror.retention_walks set begun_at = begun_at - interval '1 day'");
  const clock = {
    ...systemClock,
    now: () => addSeconds(systemClock.now(), aheadDays * DAY_SECONDS),
    sleep: () => Promise.resolve(),
  };
  const { signal } = new AbortController();
  const forEver = { changesKeptFor: null, historyKeptFor: null, eventsKeptFor: null };
  const pass = { pool, clock, logger: silentLogger, signal, renew };
  const removals = await removeAllOld(pass, { ...forEver, ...keptFor }, stepRows);
  return removals
    .filter((each) => what === undefined || each.what === what)
    .reduce((sum, { looked, removed }) => ({ looked: sum.looked + looked, removed: sum.removed + removed }), {
      looked: 0,
      removed: 0,
    });
}
