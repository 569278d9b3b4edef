import { spawnSync } from "node:child_process";
import { availableParallelism } from "node:os";
import type { Bench } from "../bench.ts";
import { startChild, startLoad, startWithQueue, type Child } from "../children.ts";
import { amount } from "../effort.ts";
import { compare, quantile, type Figure, type Sample } from "../measure.ts";
import type { StreamAnswer } from "../processes/streamReaders.ts";
import { sendAndAwait, timeEvents, type UnderLoad } from "../timeEvents.ts";

const READERS = 200;
/** One event per order: of several in one batch, readers see only the newest. */
const PACE = { requests: amount(500), perSecond: 50, eventsPerOrder: 1 };

/** From the first byte of an event to each of many readers of the stream, compared with the time to the mirror. */
export const benchStream: Bench = async (deps) => {
  const { onEnd } = deps;
  const load = await startLoad();
  onEnd(load.stop);
  const readers = await startChild("streamReaders.ts");
  onEnd(readers.stop);
  keepToOneCore(readers);
  const figures: Figure[] = [];
  for (const queue of ["Redis", "Postgres"] as const) {
    const roles = await startWithQueue(queue, deps);
    if (roles === undefined) continue;
    const under = { load, ...roles };
    figures.push(
      ...(await compare({
        section: "stream",
        unit: "ms",
        subjects: [
          {
            name: `queue in ${queue}, ${PACE.perSecond} events/s to ${READERS} readers of the stream`,
            goal: "p50 < 10 ms, p99 < 40 ms",
            run: () => timeStream(under, readers),
          },
        ],
        limit: { name: "limit: to the commit in the mirror", run: () => timeEvents(under, PACE) },
      })),
    );
  }
  return figures;
};

/**
 * Readers run on machines of their own. Here the scheduler moves them to the core of the web process, which wakes them, and
 * each then waits for the other. Without taskset, or with one core, nothing is done.
 */
function keepToOneCore({ pid }: Child): void {
  const last = availableParallelism() - 1;
  if (last > 0) spawnSync("taskset", ["--all-tasks", "--cpu-list", "--pid", String(last), String(pid)]);
}

async function timeStream(under: UnderLoad, readers: Child): Promise<Sample> {
  await readers.ask({ base: String(under.web.greeting), readers: READERS });
  const { sent, round, errors } = await sendAndAwait(under, PACE);
  const { atMs } = await readers.ask<StreamAnswer>({ round, count: PACE.requests });
  const spansMs = atMs.flatMap((times) => [...times].map((at, index) => at - (sent.sentAtMs[index] ?? 0)));
  const missed = spansMs.filter((spanMs) => spanMs < 0).length;
  const [p50Ms, p99Ms] = [quantile(spansMs, 0.5), quantile(spansMs, 0.99)];
  return { value: p50Ms, p50Ms, p99Ms, errors: errors + missed };
}
