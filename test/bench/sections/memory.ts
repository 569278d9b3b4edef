import { spawn } from "node:child_process";
import { findFreePort } from "../../../src/runtime/postgres/freePort.ts";
import { startProgram } from "../../support/programs/program.ts";
import type { Bench } from "../bench.ts";
import { buildProgram, readNodeOptions } from "../buildProgram.ts";
import { startChild, startLoad } from "../children.ts";
import { amount } from "../effort.ts";
import type { LoadAnswer } from "../processes/load.ts";
import { compare } from "../measure.ts";
import type { Sample, Subject } from "../measure.ts";
import { readMegabytes } from "../resident.ts";
import { makeEnvironment } from "../roles.ts";

const PER_SECOND = 1_000;
const EVENTS = amount(15_000);
const CONNECTIONS = 64;
const LOOK_MS = 500;
const ROLES = ["web", "worker", "poller"] as const;
type Role = (typeof ROLES)[number];

/** Resident memory of the built program, role by role, at 1,000 events per second. */
export const benchMemory: Bench = async ({ databaseUrl, onEnd }) => {
  await buildProgram();
  const nodeOptions = await readNodeOptions();
  const load = await startLoad();
  onEnd(load.stop);
  const sandbox = await startChild("sandboxProcess.ts", { env: makeEnvironment({ databaseUrl }) });
  onEnd(sandbox.stop);
  const port = await findFreePort();
  const env = {
    ...makeEnvironment({ databaseUrl }),
    PORT: String(port),
    DELIVERY_BASE_URL: String(sandbox.greeting),
    LOG_LEVEL: "info",
    LOG_FORMAT: "json",
  };
  const pids = {} as Record<Role, number>;
  for (const role of ROLES) {
    const program = startProgram([role], env, { nodeOptions });
    onEnd(async () => void (await program.stop()));
    await program.waitFor(new RegExp(`${role} is ready`));
    pids[role] = program.child.pid ?? 0;
  }
  const idle = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
  onEnd(() => Promise.resolve(void idle.kill()));

  let round = 0;
  let peaks = {} as Record<Role, number>;
  let errors = 0;
  const runLoad = async () => {
    round += 1;
    const url = `http://127.0.0.1:${port}/webhooks/live`;
    const sent = { over: false };
    const sending = load
      .ask<LoadAnswer>({ url, requests: EVENTS, perSecond: PER_SECOND, connections: CONNECTIONS, round })
      .finally(() => (sent.over = true));
    peaks = { web: 0, worker: 0, poller: 0 };
    while (!sent.over) {
      for (const role of ROLES) peaks[role] = Math.max(peaks[role], await readMegabytes(pids[role]));
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
    ({ errors } = await sending);
  };
  const subjects = ROLES.map((role): Subject => {
    const run = async (): Promise<Sample> => {
      // One load measures all roles; the first of them starts it.
      if (role === ROLES[0]) await runLoad();
      return { value: peaks[role], errors };
    };
    return { name: `${role} at ${PER_SECOND} events/s, most seen`, goal: "under 120 MB", run };
  });
  return compare({
    section: "memory",
    unit: "MB RSS",
    subjects,
    limit: {
      name: "limit: a Node process that does nothing",
      run: async () => ({ value: await readMegabytes(idle.pid ?? 0), errors: 0 }),
    },
  });
};
