import { findFreePort } from "../../../src/runtime/postgres/freePort.ts";
import type { EdgeAttackEnd } from "../../support/http/edgeAttack.ts";
import { startProgram } from "../../support/programs/program.ts";
import type { Bench } from "../bench.ts";
import { buildProgram, readNodeOptions } from "../buildProgram.ts";
import { startChild, startLoad } from "../children.ts";
import { amount } from "../effort.ts";
import type { LoadAnswer } from "../processes/load.ts";
import { compare } from "../measure.ts";
import type { Sample, Subject } from "../measure.ts";
import { makeEnvironment } from "../roles.ts";
import { readMegabytes } from "../resident.ts";

const SECONDS = 6;
const EVENTS_PER_SECOND = 500;
const CONNECTIONS = 64;
const LOOK_MS = 250;
const ATTACKS = [
  { name: "forged ones", pipelined: false },
  { name: "forged ones in packets", pipelined: true },
];

/**
 * Shedding: how long genuine events wait for their 200 during a flood of forged ones, with connections that never read,
 * that send a byte a second and that only open, compared with no attack; and what the attack costs meanwhile. The web
 * process is the built program, started as in the Procfile.
 */
export const benchShed: Bench = async ({ databaseUrl, pool, onEnd }) => {
  await buildProgram();
  const genuine = await startLoad();
  onEnd(genuine.stop);
  const attacker = await startChild("attackProcess.ts");
  onEnd(attacker.stop);
  const port = await findFreePort();
  const env = {
    ...makeEnvironment({ databaseUrl }),
    PORT: String(port),
    LOG_LEVEL: "info",
    LOG_FORMAT: "json",
  };
  const web = startProgram(["web"], env, { nodeOptions: await readNodeOptions() });
  onEnd(async () => void (await web.stop()));
  await web.waitFor(/web is ready/);
  const url = `http://127.0.0.1:${port}/webhooks/live`;
  let round = 0;

  async function sendGenuine(): Promise<Sample> {
    round += 1;
    const requests = amount(SECONDS * EVENTS_PER_SECOND);
    const order = { url, requests, connections: CONNECTIONS, round, perSecond: EVENTS_PER_SECOND };
    const { p50Ms, p99Ms, errors } = await genuine.ask<LoadAnswer>(order);
    const { rows } = await pool.query<{ count: number }>(
      "select count(*)::int as count from mirror.inbox where event_id like $1",
      [`evt\\_${round}\\_%`],
    );
    const lost = requests - errors - (rows[0]?.count ?? 0);
    return { value: p99Ms, p50Ms, p99Ms, errors: errors + Math.max(0, lost) };
  }

  const subjects = ATTACKS.flatMap(({ name, pipelined }): Subject[] => {
    let end: EdgeAttackEnd | undefined;
    let peakMegabytes = 0;
    const attack = async (): Promise<Sample> => {
      // From before the first event until after the last one.
      const floodMs = (SECONDS + 2) * 1_000;
      const attacked = attacker.ask<EdgeAttackEnd>({ port, floodMs, pipelined });
      peakMegabytes = 0;
      const looking = setInterval(() => {
        void readMegabytes(web.child.pid ?? 0).then((now) => (peakMegabytes = Math.max(peakMegabytes, now)));
      }, LOOK_MS);
      const sample = await sendGenuine();
      end = await attacked;
      clearInterval(looking);
      process.stderr.write(`  shed · ${end.sent} forged sent, ${end.refused} refused\n`);
      return sample;
    };
    const [goal, memoryGoal, closeGoal] = [
      "at most 3 of the limit, under 50 ms",
      "under 300 MB",
      "under 60 s",
    ];
    return [
      { name: `p99 of ${EVENTS_PER_SECOND}/s genuine events beside 5000/s ${name}`, goal, run: attack },
      {
        name: `memory beside 5000/s ${name}, most seen`,
        unit: "MB RSS",
        goal: memoryGoal,
        run: () => Promise.resolve({ value: peakMegabytes, errors: 0 }),
      },
      {
        name: `until all are closed that hold connections beside 5000/s ${name}`,
        unit: "s",
        goal: closeGoal,
        run: () => Promise.resolve({ value: (end?.closedAfterMs ?? Number.NaN) / 1_000, errors: 0 }),
      },
    ];
  });
  const name = `limit: p99 of ${EVENTS_PER_SECOND}/s genuine events alone`;
  return compare({ section: "shed", unit: "ms", subjects, limit: { name, run: sendGenuine } });
};
