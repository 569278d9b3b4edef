import { Agent, get } from "node:http";
import { quantile } from "./measure.ts";
import type { Sample } from "./measure.ts";
import { sendAtPace, sendInTurn } from "./sending.ts";

/** Reads the paths again and again, from a process of its own so that it does not take the server's time. */
export interface ReadOrder {
  readonly base: string;
  readonly paths: readonly string[];
  readonly requests: number;
  readonly connections: number;
  /** Without it, each connection reads again when it has its answer. */
  readonly perSecond?: number;
}

async function run({ base, paths, requests, connections, perSecond }: ReadOrder): Promise<Sample> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const latenciesMs: number[] = [];
  let errors = 0;
  const read = (index: number) =>
    new Promise<void>((resolve) => {
      const startedMs = performance.now();
      const fail = () => {
        errors += 1;
        resolve();
      };
      get(base + (paths[index % paths.length] ?? ""), { agent }, (response) => {
        response.resume();
        response.once("error", fail);
        response.once("end", () => {
          if (response.statusCode !== 200) return fail();
          latenciesMs.push(performance.now() - startedMs);
          resolve();
        });
      }).once("error", fail);
    });
  const startedMs = performance.now();
  await (perSecond === undefined
    ? sendInTurn(requests, connections, read)
    : sendAtPace(requests, perSecond, read));
  const value = latenciesMs.length / ((performance.now() - startedMs) / 1_000);
  agent.destroy();
  return { value, p50Ms: quantile(latenciesMs, 0.5), p99Ms: quantile(latenciesMs, 0.99), errors };
}

process.on("message", (order: ReadOrder) => void run(order).then((sample) => process.send?.(sample)));
process.send?.("ready");
