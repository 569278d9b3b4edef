import { afterEach, beforeEach, expect, it } from "vitest";
import { isShort } from "../support/faults/extent.ts";
import {
  RESUMES_WITHIN_MS,
  startFailoverTrial,
  type FailoverTrial,
} from "../support/faults/failoverTrial.ts";
import { startFaultProxy, type FaultProxy } from "../support/faults/faultProxy.ts";
import { portOf, through } from "../support/faults/faultWorld.ts";
import { startOwnPostgres, type OwnPostgres } from "../support/servers/ownPostgres.ts";
import { promote, startStandby, waitForStandby } from "../support/servers/replica.ts";

const ROUNDS = isShort ? 1 : 5;

let primary: OwnPostgres;
let standby: OwnPostgres;
/** The address that a failover moves, as HAProxy or a virtual address does. */
let address: FaultProxy;
let trial: FailoverTrial;

beforeEach(async () => {
  primary = await startOwnPostgres();
  standby = await startStandby(primary);
  await waitForStandby(primary);
  address = await startFaultProxy(portOf(primary.url));
  trial = await startFailoverTrial(through(primary.url, address));
});
afterEach(async () => {
  await trial.close();
  await address.close();
  await standby.remove();
  await primary.remove();
});

/** Kills the primary under load, promotes its synchronous standby and moves the address. Returns the interruption. */
async function failOver(): Promise<number> {
  const killedMs = performance.now();
  await primary.kill();
  await promote(standby);
  await primary.remove();
  primary = standby;
  address.moveTo(portOf(primary.url));
  const movedMs = performance.now();
  return trial.goesOn(movedMs, { promotedMs: Math.round(movedMs - killedMs) });
}

it(
  "a promoted standby has everything acknowledged; polling, proof and readers resume (row 36)",
  async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      if (round > 0) {
        standby = await startStandby(primary);
        await waitForStandby(primary);
      }
      await trial.runQuietly();
      expect(await failOver()).toBeLessThan(RESUMES_WITHIN_MS);
    }
    await trial.expectNothingLost("36");
  },
  15 * 60_000,
);
