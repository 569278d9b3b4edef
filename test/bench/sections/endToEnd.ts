import { randomBytes } from "node:crypto";
import { insertEvents } from "../../../src/receive/inbox.sql.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { at, makeEventBody } from "../../support/mirror/orders.ts";
import type { Bench, BenchDeps } from "../bench.ts";
import { nextRound, startLoad, startWithQueue, webhookAddress, type Child } from "../children.ts";
import { amount } from "../effort.ts";
import { compare, quantile, type Figure, type Sample, type Subject } from "../measure.ts";
import type { LoadAnswer, LoadOrder } from "../processes/load.ts";
import type { RoundAnswer } from "../processes/roleProcess.ts";

const CONNECTIONS = 64;
const WARM_UP_EVENTS = amount(30_000);
const WARM_UP_ROUNDS = 3;
const DIRECT_EVENTS = amount(1_000);
const QUEUES = [
  {
    queue: "Redis",
    paces: [
      { perSecond: 500, events: amount(2_500), goal: "p50 < 8 ms, p99 < 30 ms" },
      { perSecond: 2_000, events: amount(8_000), goal: "p99 < 50 ms" },
    ],
  },
  {
    queue: "Postgres",
    paces: [
      { perSecond: 500, events: amount(2_500), goal: "p50 < 15 ms, p99 < 60 ms" },
      { perSecond: 2_000, events: amount(8_000), goal: "p99 < 50 ms" },
    ],
  },
] as const;

/**
 * From the first byte of an event to its commit in the mirror, with receiver, queue, worker, Postgres and the load
 * generator as separate processes on this machine.
 */
export const benchEndToEnd: Bench = async (deps) => {
  const load = await startLoad();
  deps.onEnd(load.stop);
  const figures: Figure[] = [];
  for (const { queue, paces } of QUEUES) {
    // Recycles the log files written so far.
    await deps.pool.query("checkpoint");
    const roles = await startWithQueue(queue, deps);
    if (roles === undefined) continue;
    const { web, worker } = roles;
    const under = { load, web, worker };
    // The state after a minute of work: until then Node compiles on the measured cores.
    for (let round = 0; round < WARM_UP_ROUNDS; round += 1) {
      await timeEvents(under, { requests: WARM_UP_EVENTS });
    }
    figures.push(
      ...(await compare({
        section: "end-to-end",
        unit: "ms",
        subjects: paces.map(({ perSecond, events, goal }) => ({
          name: `queue in ${queue}, ${perSecond} events/s`,
          goal,
          run: () => timeEvents(under, { requests: events, perSecond }),
        })),
        limit: makeDirect(deps),
      })),
    );
    // So that they take no time from the next queue's.
    for (const child of [web, worker]) await child.stop();
  }
  return figures;
};

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

/** The processes that an event goes through. */
interface UnderLoad {
  readonly load: Child;
  readonly web: Child;
  readonly worker: Child;
}

/** Sends events and waits until each is in the mirror; one that never arrives counts as an error. */
async function timeEvents(
  { load, web, worker }: UnderLoad,
  order: Pick<LoadOrder, "requests" | "perSecond">,
): Promise<Sample> {
  const round = nextRound();
  const url = webhookAddress(web);
  const [sent, appliedAtMs] = await Promise.all([
    load.ask<LoadAnswer>({ url, connections: CONNECTIONS, round, ...order }),
    worker.ask<RoundAnswer>({ round, count: order.requests }),
  ]);
  const errors = sent.errors + appliedAtMs.filter((atMs) => atMs === 0).length;
  const spansMs = [...appliedAtMs].map((atMs, index) => atMs - (sent.sentAtMs[index] ?? 0));
  const [p50Ms, p99Ms] = [quantile(spansMs, 0.5), quantile(spansMs, 0.99)];
  return { value: p50Ms, p50Ms, p99Ms, errors };
}
