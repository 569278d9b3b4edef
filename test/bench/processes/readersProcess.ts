import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { openConnections } from "../connections.ts";
import { quantile } from "../measure.ts";
import type { Sample } from "../measure.ts";

/** Reads the paths repeatedly, in a separate process so that it does not use the server's time. */
export interface ReadOrder {
  readonly base: string;
  readonly paths: readonly string[];
  readonly requests: number;
  readonly readers: number;
  /**
   * The total of all readers: each has its own connection and waits for a random time, so that sometimes several read at
   * once. Without it, each reads again when it has its answer.
   */
  readonly perSecond?: number;
}

async function run(order: ReadOrder): Promise<Sample> {
  const { base, paths, requests, readers, perSecond } = order;
  const { host } = new URL(base);
  const prepared = paths.map((path) => Buffer.from(`GET ${path} HTTP/1.1\r\nhost: ${host}\r\n\r\n`));
  const connections = Array.from({ length: readers }, () => openConnections({ url: base, count: 1 }));
  const latenciesMs: number[] = [];
  let errors = 0;
  let next = 0;
  const over = new AbortController();
  setMaxListeners(readers, over.signal);

  async function read(index: number, { send }: (typeof connections)[number]): Promise<void> {
    const startedMs = performance.now();
    const status = await send(prepared[index % prepared.length] ?? Buffer.alloc(0)).catch(() => 0);
    if (status === 200) latenciesMs.push(performance.now() - startedMs);
    else errors += 1;
  }

  const think = (meanMs: number) =>
    sleep(-Math.log(1 - Math.random()) * meanMs, undefined, { signal: over.signal }).catch(() => undefined);

  async function readInTurn(connection: (typeof connections)[number]): Promise<void> {
    while (next < requests) {
      if (perSecond !== undefined) await think((1_000 * readers) / perSecond);
      if (next < requests) await read(next++, connection);
    }
    over.abort();
  }

  const startedMs = performance.now();
  await Promise.all(connections.map(readInTurn));
  const value = latenciesMs.length / ((performance.now() - startedMs) / 1_000);
  for (const { close } of connections) close();
  return { value, p50Ms: quantile(latenciesMs, 0.5), p99Ms: quantile(latenciesMs, 0.99), errors };
}

process.on("message", (order: ReadOrder) => void run(order).then((sample) => process.send?.(sample)));
process.send?.("ready");
