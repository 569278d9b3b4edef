import type { Decision } from "../../../src/apply/applySubjects.ts";
import { runService, startMirror, type Service } from "../../../src/mirror/service.ts";
import { readConfig } from "../../../src/cli/input/session.ts";

/**
 * One role of the product as a separate process, started as by its command. Argument: `web` or `worker`. Sends its
 * address first; a worker answers when the events of a round are in the mirror.
 */
export interface RoundOrder {
  readonly round: number;
  readonly count: number;
}

/** When each event of the round was in the mirror, in milliseconds since 1970; 0 for one that never arrived. */
export type RoundAnswer = Float64Array;

const PATIENCE_MS = 60_000;
const LOOK_MS = 5;
const EVENT_ID_START = "evt_";

interface Round {
  /** By index. */
  readonly times: number[];
  events: number;
}
const decided = new Map<number, Round>();

/** Called once the batch is committed and visible. Cheap, because it counts as work of the worker. */
function noteDecisions(decisions: readonly Decision[]): void {
  const nowMs = performance.timeOrigin + performance.now();
  for (const { eventId } of decisions) {
    if (eventId?.startsWith(EVENT_ID_START) !== true) continue;
    const end = eventId.lastIndexOf("_");
    const number = Number(eventId.slice(EVENT_ID_START.length, end));
    const round = decided.get(number) ?? { times: [], events: 0 };
    const index = Number(eventId.slice(end + 1));
    if (round.times[index] === undefined) round.events += 1;
    round.times[index] = nowMs;
    decided.set(number, round);
  }
}

async function awaitRound({ round, count }: RoundOrder): Promise<RoundAnswer> {
  const giveUpMs = performance.now() + PATIENCE_MS;
  while ((decided.get(round)?.events ?? 0) < count && performance.now() < giveUpMs) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  const times = decided.get(round)?.times;
  decided.delete(round);
  return Float64Array.from({ length: count }, (_, index) => times?.[index] ?? 0);
}

async function start(role: string, service: Service): Promise<void> {
  if (role === "worker") {
    await startMirror({ ...service, onDecisions: noteDecisions }, { web: false, worker: true });
    process.send?.("ready");
  } else {
    process.send?.((await startMirror(service, {}))?.url);
  }
}

const [role = "web"] = process.argv.slice(2);
process.on("message", (order: RoundOrder) => {
  void awaitRound(order).then((times) => process.send?.(times));
});
await runService({
  service: `bench ${role}`,
  config: readConfig(),
  migrates: false,
  start: (service) => start(role, service),
});
