import pg from "pg";
import { afterEach, beforeEach, expect, it } from "vitest";
import { withDatabase } from "../support/servers/createDatabase.ts";
import { isShort } from "../support/faults/extent.ts";
import { RESUMES_WITHIN_MS, startFailoverTrial } from "../support/faults/failoverTrial.ts";
import type { FailoverTrial } from "../support/faults/failoverTrial.ts";
import { canStartPatroni, startPatroniCluster } from "../support/servers/patroniCluster.ts";
import type { PatroniCluster } from "../support/servers/patroniCluster.ts";
import { runProgram } from "../support/programs/program.ts";

/** The primary's host is killed or freezes, its Postgres alone is killed, the standby's host freezes. */
const FAULTS = isShort
  ? (["host killed"] as const)
  : ([
      "host killed",
      "Postgres killed",
      "host frozen",
      "host killed",
      "Postgres killed",
      "standby frozen",
    ] as const);

let cluster: PatroniCluster | undefined;
let trial: FailoverTrial | undefined;

beforeEach(async () => {
  if (!canStartPatroni) return;
  cluster = await startPatroniCluster();
  await cluster.waitUntilWhole();
  const admin = new pg.Client(cluster.url);
  await admin.connect();
  await admin.query("create database order_mirror");
  await admin.end();
  const databaseUrl = withDatabase(cluster.url, "order_mirror");
  const migrated = await runProgram(["migrate"], { DATABASE_URL: databaseUrl });
  if (migrated.code !== 0) throw new Error(`no migration:\n${migrated.stderr}`);
  trial = await startFailoverTrial(databaseUrl);
});
afterEach(async () => {
  await trial?.close();
  await cluster?.remove();
});

it.runIf(canStartPatroni)(
  "Patroni replaces a primary under load: nothing acknowledged is lost, and all goes on within 30 s (row 37)",
  async () => {
    for (const fault of FAULTS) {
      const { primary, standby } = await cluster!.waitUntilWhole();
      await trial!.runQuietly();
      const failedMs = performance.now();
      if (fault === "standby frozen") {
        cluster!.freeze(standby);
        await cluster!.waitUntilAlone(primary);
      } else {
        if (fault === "host frozen") cluster!.freeze(primary);
        else cluster!.kill(primary, fault);
        await cluster!.waitForPrimary(standby);
      }
      const primaryMs = Math.round(performance.now() - failedMs);
      expect(await trial!.goesOn(failedMs, { primaryMs })).toBeLessThan(RESUMES_WITHIN_MS);
      for (const name of [primary, standby]) cluster!.restore(name);
    }
    await cluster!.waitUntilWhole();
    await trial!.expectNothingLost("37");
  },
  15 * 60_000,
);
