import { randomBytes } from "node:crypto";
import { insertEvents } from "../../../src/receive/inbox.sql.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { at, makeEventBody } from "../../support/mirror/orders.ts";
import {
  type Bench,
  type BenchDeps,
  nextRound,
  type Running,
  sendRound,
  startLoad,
  withEachQueue,
} from "../children.ts";
import { amount } from "../effort.ts";
import { compare, quantile, type Sample, type Subject } from "../measure.ts";

const WARM_UP_EVENTS = amount(30_000);
const WARM_UP_ROUNDS = 3;
const DIRECT_EVENTS = amount(1_000);
const PACES = [
  {
    perSecond: 500,
    requests: amount(2_500),
    goals: { Redis: "p50 < 8 ms, p99 < 30 ms", Postgres: "p50 < 15 ms, p99 < 60 ms" },
  },
  { perSecond: 2_000, requests: amount(8_000), goals: { Redis: "p99 < 50 ms", Postgres: "p99 < 50 ms" } },
];

/**
 * From the first byte of an event to its commit in the mirror, with receiver, queue, worker, Postgres and the load
 * generator as separate processes on this machine.
 */
export const benchEndToEnd: Bench = async (deps) =>
  withEachQueue(deps, await startLoad(deps), async (queue, running) => {
    // Recycles the log files written so far.
    await deps.pool.query("checkpoint");
    // The state after a minute of work: until then Node compiles on the measured cores.
    for (let round = 0; round < WARM_UP_ROUNDS; round += 1)
      await timeEvents(running, { requests: WARM_UP_EVENTS });
    return compare({
      section: "end-to-end",
      unit: "ms",
      subjects: PACES.map(({ perSecond, requests, goals }) => ({
        name: `queue in ${queue}, ${perSecond} events/s`,
        goal: goals[queue],
        run: () => timeEvents(running, { requests, perSecond }),
      })),
      limit: makeDirect(deps),
    });
  });

/** The two commits that every event needs, one event at a time, without network, queue or processes between. */
function makeDirect({ pool }: BenchDeps): Subject {
  const apply = makeLiveApply(pool);
  return {
    name: "limit: the two commits of one event, nothing between",
    async run() {
      const round = nextRound();
      const spansMs: number[] = [];
      for (let index = 0; index < DIRECT_EVENTS; index += 1) {
        const eventId = `direct_${round}_${index}`;
        const order = { reference: eventId, updatedAt: at(index), more: { note: "x".repeat(300) } };
        const body = makeEventBody({ id: eventId, order });
        const startedMs = performance.now();
        const event = {
          sourceId: "live",
          eventId,
          body,
          bodyHash: randomBytes(32),
          secretIndex: 0,
          headers: "{}",
        };
        const stored = await insertEvents(pool, [event]);
        await apply.applyEvents(stored.map(({ seq }) => seq));
        spansMs.push(performance.now() - startedMs);
      }
      const [p50Ms, p99Ms] = [quantile(spansMs, 0.5), quantile(spansMs, 0.99)];
      return { value: p50Ms, p50Ms, p99Ms, errors: 0 };
    },
  };
}

async function timeEvents(running: Running, order: Parameters<typeof sendRound>[1]): Promise<Sample> {
  const { sentAtMs, appliedAtMs, errors } = await sendRound(running, order);
  const spansMs = [...appliedAtMs].map((atMs, index) => atMs - (sentAtMs[index] ?? 0));
  const [p50Ms, p99Ms] = [quantile(spansMs, 0.5), quantile(spansMs, 0.99)];
  return { value: p50Ms, p50Ms, p99Ms, errors };
}
