import type { Bench } from "./bench.ts";
import { startLoad } from "./children.ts";
import { amount } from "./effort.ts";
import type { LoadAnswer, LoadOrder } from "./load.ts";
import { compare } from "./measure.ts";
import type { Sample } from "./measure.ts";
import { makeEnvironment, startRole, webhookAddress } from "./roles.ts";

const SECONDS = 6;
/** For making and signing events, which takes a core for as long. */
const PREPARE_MS = 5_000;
const EVENTS_PER_SECOND = 500;
const FORGED_PER_SECOND = 5_000;
const CONNECTIONS = 64;

/** Shedding: how long genuine events wait for their 200 during a flood of forged ones, against without it. */
export const benchShed: Bench = async ({ databaseUrl, onEnd }) => {
  const genuine = await startLoad();
  onEnd(genuine.stop);
  const flood = await startLoad();
  onEnd(flood.stop);
  const receiver = await startRole("receiver", makeEnvironment({ databaseUrl }));
  onEnd(receiver.stop);
  const url = webhookAddress(receiver);
  let round = 0;
  const order = (perSecond: number, more: Partial<LoadOrder> = {}): LoadOrder => ({
    url,
    requests: amount(SECONDS * perSecond),
    connections: CONNECTIONS,
    round: (round += 1),
    perSecond,
    startAtMs: Date.now() + PREPARE_MS,
    ...more,
  });
  const measure = (answer: LoadAnswer, errors = 0): Sample => ({
    value: answer.p99Ms,
    p50Ms: answer.p50Ms,
    p99Ms: answer.p99Ms,
    errors: answer.errors + errors,
  });
  return compare({
    section: "shed",
    unit: "ms",
    subjects: [
      {
        name: `p99 of ${EVENTS_PER_SECOND}/s genuine events beside ${FORGED_PER_SECOND}/s forged ones`,
        goal: "at most 3 of the limit",
        async run() {
          const flooding = { forged: true, endAtMs: Date.now() + PREPARE_MS + SECONDS * 1_000 };
          const [answer, refused] = await Promise.all([
            genuine.ask<LoadAnswer>(order(EVENTS_PER_SECOND)),
            flood.ask<LoadAnswer>(order(FORGED_PER_SECOND, flooding)),
          ]);
          return measure(answer, refused.errors);
        },
      },
    ],
    limit: {
      name: `limit: p99 of ${EVENTS_PER_SECOND}/s genuine events alone`,
      run: async () => measure(await genuine.ask<LoadAnswer>(order(EVENTS_PER_SECOND))),
    },
  });
};
