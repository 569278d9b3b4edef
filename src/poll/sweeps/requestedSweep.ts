import { floorTo } from "../../domain/order/instant.ts";
import { BOUND_GRANULE, lastPart } from "../../domain/window/window.ts";
import {
  advanceBackfill,
  noteBackfillFailure,
  readOpenBackfill,
  startBackfill,
} from "../ledger/backfills.sql.ts";
import { describeMessage } from "../../runtime/telemetry/errorFields.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { WalkTooLargeError } from "../cycle/errors.ts";
import { makePeriodSpan } from "../cycle/span.ts";
import { lateSeconds, provableUntil } from "./sweeps.ts";
import type { Sweep } from "./sweeps.ts";

/** With the pauses between them some eight minutes. */
const FAILURES_MAX = 10;

/** The periods that people asked for, newest part first, beside everything else. */
export function makeRequestedSweep(
  deps: Pick<PollDeps, "source" | "pool" | "settleSeconds" | "overlapSeconds">,
): Sweep {
  const { pool } = deps;
  const { sourceId } = deps.source;
  const span = makePeriodSpan();
  let backfillId: bigint | undefined;
  return {
    name: "requested",
    via: "backfill",
    priority: "backfill",
    movesCursor: false,
    get provesAfterSeconds() {
      return lateSeconds(deps);
    },
    span,
    async next({ providerNow }, { lease }) {
      const open = await readOpenBackfill(pool, sourceId);
      backfillId = open?.backfillId;
      if (open === undefined) return undefined;
      let { readDownTo } = open;
      if (open.state === "requested") {
        const provable = floorTo(provableUntil(providerNow, deps), BOUND_GRANULE);
        readDownTo = open.until < provable ? open.until : provable;
        // Too young to be read for good; it will not be in a minute.
        if (readDownTo <= open.since) return undefined;
        await startBackfill(pool, lease, { backfillId: open.backfillId, until: readDownTo });
      }
      return lastPart({ since: open.since, until: readDownTo }, span.seconds());
    },
    async resume(window) {
      const open = await readOpenBackfill(pool, sourceId);
      if (open?.state !== "running") return false;
      backfillId = open.backfillId;
      return window.until === open.readDownTo && window.since >= open.since;
    },
    async noteRead(window, { proved, requests, orders, term }) {
      if (backfillId === undefined) return;
      const counts = { proved, requests, orders };
      await advanceBackfill(pool, term.lease, { sourceId, backfillId, readDownTo: window.since, ...counts });
      span.fit(requests);
    },
    async noteFailure(error, { lease }) {
      if (backfillId === undefined || error instanceof WalkTooLargeError) return;
      const failure = { backfillId, error: describeMessage(error), failuresMax: FAILURES_MAX };
      await noteBackfillFailure(pool, lease, failure);
    },
  };
}
