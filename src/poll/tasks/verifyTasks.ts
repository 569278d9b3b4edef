import { addSeconds } from "../../domain/order/instant.ts";
import { readSample } from "../ledger/comparedOrders.sql.ts";
import {
  advanceRequest,
  readOpenRequest,
  requestNightly,
  startRequest,
} from "../ledger/periodRequests.sql.ts";
import type { LeaderTask } from "./leaderTasks.ts";
import { compareOrders } from "../sweeps/compareOrder.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { provableUntil } from "../sweeps/sweeps.ts";

const NIGHTLY_SECONDS = 48 * 3_600;
const NIGHTLY_LOOK_MS = 600_000;
/** Per cycle; single reads only use the sustained policy, but the next cycle must start in time. */
const SAMPLE_PER_CYCLE = 50;

/** Requests a comparison of the last 48 hours once a night. */
export function makeAskNightly(deps: Pick<PollDeps, "source" | "pool" | "client">): LeaderTask {
  const { sourceId } = deps.source;
  return {
    name: "ask for the nightly comparison",
    everyMs: NIGHTLY_LOOK_MS,
    async run() {
      const until = deps.client.providerClock.providerNow();
      await requestNightly(deps.pool, {
        sourceId,
        window: { since: addSeconds(until, -NIGHTLY_SECONDS), until },
      });
    },
  };
}

/** Compares the samples that people requested, some orders after each cycle. */
export function makeVerifySamples(deps: PollDeps): LeaderTask {
  const { pool, client } = deps;
  const { sourceId } = deps.source;
  return {
    name: "compare a sample",
    everyMs: 0,
    concerns: ({ lastRequest }) => [lastRequest],
    async run({ term, signal }) {
      const open = await readOpenRequest(pool, { sourceId, kind: "verification", sampled: true });
      if (open === undefined || open.sample === null) return;
      const { requestId, until, sample, orders } = open;
      if (open.state === "requested") await startRequest(pool, term.lease, { requestId, until });
      const limit = Math.min(SAMPLE_PER_CYCLE, sample - orders);
      const sampled = await readSample(pool, { requestId, limit });
      const knownBefore = provableUntil(client.providerClock.providerNow(), deps);
      const { compared, difference, failure } = await compareOrders(deps, {
        references: sampled.map(({ reference }) => reference),
        knownBefore,
        repairs: open.repairs,
        term,
        signal,
      });
      await advanceRequest(pool, term.lease, {
        sourceId,
        requestId,
        readDownTo: open.readDownTo,
        proved: true,
        requests: compared,
        orders: compared,
        sampledThrough: sampled[compared - 1]?.place,
        ...difference,
        done: compared === sampled.length && (compared < limit || orders + compared >= sample),
      });
      if (failure !== undefined) throw failure;
      return "again";
    },
  };
}
