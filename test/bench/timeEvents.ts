import type { LoadAnswer, LoadOrder } from "./processes/load.ts";
import { quantile, type Sample } from "./measure.ts";
import type { RoundAnswer } from "./processes/roleProcess.ts";
import { webhookAddress, type Child } from "./children.ts";

const CONNECTIONS = 64;

/** The processes that an event goes through. */
export interface UnderLoad {
  readonly load: Child;
  readonly web: Child;
  readonly worker: Child;
}

let rounds = 0;

/** A number unique to this round of the run. */
export function nextRound(): number {
  rounds += 1;
  return rounds;
}

/** Sends events and waits until each is in the mirror; one that never arrives counts as an error. */
export async function sendAndAwait(
  { load, web, worker }: UnderLoad,
  order: Pick<LoadOrder, "requests" | "perSecond" | "eventsPerOrder">,
): Promise<{ round: number; sent: LoadAnswer; spansMs: number[]; errors: number }> {
  const round = nextRound();
  const url = webhookAddress(web);
  const [sent, appliedAtMs] = await Promise.all([
    load.ask<LoadAnswer>({ url, connections: CONNECTIONS, round, ...order }),
    worker.ask<RoundAnswer>({ round, count: order.requests }),
  ]);
  const errors = sent.errors + appliedAtMs.filter((atMs) => atMs === 0).length;
  const spansMs = [...appliedAtMs].map((atMs, index) => atMs - (sent.sentAtMs[index] ?? 0));
  return { round, sent, spansMs, errors };
}

export async function timeEvents(
  under: UnderLoad,
  order: { requests: number; perSecond: number },
): Promise<Sample> {
  const { spansMs, errors } = await sendAndAwait(under, order);
  const [p50Ms, p99Ms] = [quantile(spansMs, 0.5), quantile(spansMs, 0.99)];
  return { value: p50Ms, p50Ms, p99Ms, errors };
}
