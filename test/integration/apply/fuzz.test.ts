import { expect, it, onTestFinished } from "vitest";
import { fuzzReceiver } from "../../fuzz/fuzzReceiver.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";

const SHOTS = 2_000;

it(`${SHOTS} mutated requests: signed ones are stored and decided, others leave no trace`, async () => {
  const database = await makeTestDatabase();
  onTestFinished(() => database.drop());
  const isDone = (shots: number) => shots >= SHOTS;
  const report = await fuzzReceiver({ url: database.url, pool: database.pool, seed: 1, isDone });
  expect(report.shots).toBe(SHOTS);
  // If all requests ended the same way, the fuzzer would exercise one line of code.
  expect(Object.keys(report.answers)).toEqual(expect.arrayContaining(["200", "400", "401"]));
  expect(Object.keys(report.verdicts)).toEqual(expect.arrayContaining(["applied", "stale", "quarantined"]));
});
