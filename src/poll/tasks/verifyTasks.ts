import { addSeconds } from "../../domain/order/instant.ts";
import {
  advanceRequest,
  readOpenRequest,
  readSample,
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
      const query = { sourceId, window: open, requestId, offset: orders, limit };
      const references = await readSample(pool, query);
      const knownBefore = provableUntil(client.providerClock.providerNow(), deps);
      const found = await compareOrders(deps, {
        references,
        knownBefore,
        repairs: open.repairs,
        term,
        signal,
      });
      const compared = references.length;
      await advanceRequest(pool, term.lease, {
        sourceId,
        requestId,
        readDownTo: open.readDownTo,
        proved: true,
        requests: compared,
        orders: compared,
        ...found,
        done: compared < limit || orders + compared >= sample,
      });
      return "again";
    },
  };
}
