import type { Decision } from "../../../src/apply/applySubjects.ts";
import { openQueues } from "../../../src/roles/queues.ts";
import { answerOnly } from "../../../src/roles/serve.ts";
import { openHealth } from "../../../src/roles/serving/health.ts";
import { makeReloadableConfig } from "../../../src/roles/start/reloadableConfig.ts";
import { openWeb } from "../../../src/roles/web.ts";
import { listen } from "../../../src/runtime/http/httpServer.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { makeMetrics } from "../../../src/runtime/telemetry/metrics.ts";
import { runService, startMirror } from "../../../src/cli/input/service.ts";
import type { Service } from "../../../src/cli/input/service.ts";
import { readConfig } from "../../../src/cli/input/session.ts";

/**
 * One role of the product as a separate process, started as by its command. Argument: `web`, `worker`, or `receiver`,
 * which is a web process that notifies no worker. Sends its address first; a worker answers when the events of a round are
 * in the mirror.
 */
export interface RoundOrder {
  readonly round: number;
  readonly count: number;
  /** Others have the rest: answers at once with what this worker has decided. */
  readonly isOver?: true;
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

async function awaitRound({ round, count, isOver }: RoundOrder): Promise<RoundAnswer> {
  const giveUpMs = isOver === true ? 0 : performance.now() + PATIENCE_MS;
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
  } else if (role === "web") {
    process.send?.((await startMirror(service, {}))?.url);
  } else {
    process.send?.(await startReceiver(service));
  }
}

/** The web process without what notifies workers. */
async function startReceiver(service: Service): Promise<string> {
  const { config, logger } = service;
  const reloadable = makeReloadableConfig({ config, logger });
  const deps = { ...service, clock: systemClock, metrics: makeMetrics({ version: "bench" }), reloadable };
  const { queue } = await openQueues(deps);
  const silent = { ...queue, notify: () => undefined };
  const { webhooks } = await openWeb({ ...deps, queue: silent, health: openHealth(deps) });
  const { host, port, connectionsMax } = config;
  const place = { host, port, connectionsMax, portVariable: "PORT", clock: systemClock, logger };
  return (await listen(answerOnly(webhooks, logger), place)).url;
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
