import { spawn, spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { startLoad } from "./children.ts";
import type { LoadAnswer, LoadOrder } from "./processes/load.ts";
import { makeRequests } from "./requests.ts";

/** Sends the events of a round, each connection its next one when it has its answer. */
export type Generate = (order: LoadOrder) => Promise<Pick<LoadAnswer, "value" | "errors">>;

const SCRIPT = path.join(import.meta.dirname, "generator.lua");
/** How long wrk runs at most. */
const PATIENCE = "120s";

/** wrk, where there is one: the generator in Node takes so much of the processors that the ratios flatter. */
export async function startGenerator(onEnd: (stop: () => Promise<void>) => void): Promise<Generate> {
  // It ends with 1 whatever it is asked.
  if (spawnSync("wrk", ["-v"]).error === undefined) return sendWithWrk;
  process.stderr.write("There is no wrk: the load generator in Node takes its part of the processors.\n");
  const load = await startLoad();
  onEnd(load.stop);
  return (order) => load.ask<LoadAnswer>(order);
}

async function sendWithWrk(order: LoadOrder): Promise<Pick<LoadAnswer, "value" | "errors">> {
  const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-bench-wrk-"));
  try {
    const file = path.join(folder, "requests");
    const requests = makeRequests(order).flatMap((request) => [Buffer.from(`${request.length}\n`), request]);
    await writeFile(file, requests);
    const connections = String(order.connections);
    const options = ["-t1", "-c", connections, "-d", PATIENCE, "--timeout", "30s", "-s", SCRIPT];
    const args = [...options, order.url, "--", file, connections];
    const wrk = spawn("wrk", args, { stdio: ["ignore", "pipe", "inherit"] });
    let [begunMs, endedMs, errors] = [0, 0, Number.NaN];
    for await (const line of createInterface({ input: wrk.stdout })) {
      if (line === "begun") begunMs = performance.now();
      if (line === "ended") {
        endedMs = performance.now();
        // Otherwise it waits until its time is over.
        wrk.kill("SIGINT");
      }
      if (line.startsWith("errors ")) errors = Number(line.slice("errors ".length));
    }
    if (Number.isNaN(errors) || endedMs === 0) throw new Error("wrk did not send all requests");
    return { value: order.requests / ((endedMs - begunMs) / 1_000), errors };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
