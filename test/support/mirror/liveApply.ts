import { makeApply, type Apply } from "../../../src/apply/apply.ts";
import type { Pool } from "../../../src/database/database.ts";
import type { Instant } from "../../../src/domain/order/instant.ts";
import type { Via } from "../../../src/domain/order/observation.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { makeEventBody, makeSnapshot, putIntoInbox, readAt, type OrderSketch } from "./orders.ts";
import { applyAbsence, type Absence, type AbsenceOutcome } from "../../../src/apply/absence.sql.ts";

/** Applies observations of the source `live`, or of another one in live mode. */
export function makeLiveApply(pool: Pool, sourceId = "live"): Apply {
  const modes = new Map([[sourceId, "live"]] as const);
  return makeApply({ pool, logger: silentLogger, modes });
}

interface ReadOptions {
  readonly sourceId?: string;
  readonly via?: Exclude<Via, "webhook">;
  readonly marginSeconds?: number;
}

/** How a mirror learns of orders. */
export function makeObserver(pool: Pool, apply: Apply) {
  let events = 0;
  /** Applies an event about the order, under an id of its own unless one is given. */
  const tell = async (
    order: OrderSketch,
    { sourceId = "live", eventId = `evt_${(events += 1)}` }: { sourceId?: string; eventId?: string } = {},
  ) => {
    const body = makeEventBody({ id: eventId, order });
    return apply.applyEvents(await putIntoInbox(pool, [{ sourceId, eventId, body }]));
  };
  /** Applies a read that was requested at an instant and shows these orders. */
  const show = (
    requestedAt: Instant,
    orders: readonly OrderSketch[],
    { sourceId = "live", via = "poll", marginSeconds = 300 }: ReadOptions = {},
  ) => {
    const snapshots = orders.map(makeSnapshot);
    return apply.applyReads({ sourceId, via, snapshots, time: readAt(requestedAt, marginSeconds) });
  };
  return { tell, show };
}

/** A second answer that finds no such order: the first was a margin before, and a window was proved since. */
export async function missAgain(
  pool: Pool,
  absence: Omit<Absence, "via" | "missedAt" | "marginSeconds">,
): Promise<AbsenceOutcome> {
  const { sourceId, requestedAt } = absence;
  const missedAt = requestedAt - 1_000_000_000n;
  await pool.query(
    `insert into mirror.coverage (source_id, since, until, sweep, proved, fence, requests, orders, begun_at)
     values ($1, 0, 1, 'proof', true, 0, 1, 1, $2)`,
    [sourceId, missedAt],
  );
  return applyAbsence(pool, { ...absence, via: "refetch", missedAt, marginSeconds: 1 });
}
