import { afterAll, expect, it } from "vitest";
import { findFreePort } from "../../src/postgres/freePort.ts";
import { startEventRelay } from "../support/faults/events.ts";
import { isShort, noteFigures, seed } from "../support/faults/extent.ts";
import { portOf, startFaultProxy, through } from "../support/faults/faultProxy.ts";
import { makeMirrorAudit } from "../support/faults/mirrorAudit.ts";
import { followFeed } from "../support/mirror/served.ts";
import { startRole, stopPrograms } from "../support/programs/program.ts";
import { startFaultProvider } from "../support/providers/faultProvider.ts";
import { promote, startOwnPostgres, startStandby, waitForStandby } from "../support/servers/ownPostgres.ts";

const ROUNDS = isShort ? 1 : 5;

/** The load, also after each proof, for which it rests. */
const SPEED = 40;
const ORDERS_PER_MINUTE = 600;

let primary = await startOwnPostgres();
let standby = await startStandby(primary);
afterAll(async () => {
  await standby.remove();
  await primary.remove();
});
await waitForStandby(primary);
/** The address that a failover moves, as HAProxy or a virtual address does. */
const address = await startFaultProxy(portOf(primary.url));
afterAll(() => address.close());
const databaseUrl = through(primary.url, address);
const provider = await startFaultProvider({
  seed,
  speed: SPEED,
  trafficPerMinute: ORDERS_PER_MINUTE,
  retryBaseMs: 500,
});
afterAll(() => provider.close());
const audit = makeMirrorAudit(databaseUrl);
afterAll(audit.close);
const port = String(await findFreePort());
const env = { ...provider.env, DATABASE_URL: databaseUrl, HOST: "127.0.0.1", PORT: port };
afterAll(stopPrograms);
const programs = await Promise.all(
  (["web", "worker", "poller"] as const).map((role) => startRole(role, env)),
);
const relay = await startEventRelay(`http://127.0.0.1:${port}/webhooks/live`);
afterAll(relay.close);
await provider.sendEventsTo(relay.url);
const follower = followFeed(`http://127.0.0.1:${port}`);
afterAll(() => follower.stop());

/** The mirror's safe_through; 0 while it is unreachable. */
const readSafeThrough = () => audit.readSafeThrough().catch(() => 0n);

/** Resolves with how many milliseconds after `sinceMs` it happened. */
async function waitFor(hasHappened: () => boolean | Promise<boolean>, sinceMs: number) {
  await expect.poll(hasHappened).toBe(true);
  return Math.round(performance.now() - sinceMs);
}

/**
 * Waits while the provider rests: it makes orders at the same pace on every machine, and on one that is too slow for
 * that the poller would never catch up.
 */
async function waitForProof(safeThrough: bigint, sinceMs: number): Promise<number> {
  await provider.steer("POST", "/dials", { speed: 0, ordersPerMinute: 0 });
  const tookMs = await waitFor(async () => (await readSafeThrough()) > safeThrough, sinceMs);
  await provider.steer("POST", "/dials", { speed: SPEED, ordersPerMinute: ORDERS_PER_MINUTE });
  return tookMs;
}

/** Kills the primary under load, promotes its synchronous standby and moves the address. */
async function failOver(): Promise<void> {
  await waitForProof(await readSafeThrough(), performance.now());
  const enough = relay.acknowledged.size + 20;
  await expect.poll(() => relay.acknowledged.size).toBeGreaterThanOrEqual(enough);
  expect(await audit.look(provider)).toBe(true);
  const killedMs = performance.now();
  await primary.kill();
  await promote(standby);
  await primary.remove();
  primary = standby;
  address.moveTo(portOf(primary.url));
  const movedMs = performance.now();
  const [acknowledged, followed] = [relay.acknowledged.size, follower.changes.length];
  const safeThrough = await readSafeThrough();
  const [eventMs, changeMs] = await Promise.all([
    waitFor(() => relay.acknowledged.size > acknowledged, movedMs),
    waitFor(() => follower.changes.length > followed, movedMs),
  ]);
  const proofMs = await waitForProof(safeThrough, movedMs);
  noteFigures("a failover", { promotedMs: Math.round(movedMs - killedMs), eventMs, changeMs, proofMs });
}

it("a promoted standby has everything acknowledged; polling, proof and readers resume (row 36)", async () => {
  for (let round = 0; round < ROUNDS; round += 1) {
    if (round > 0) {
      standby = await startStandby(primary);
      await waitForStandby(primary);
    }
    await failOver();
    await audit.look(provider);
    expect(audit.violations).toEqual([]);
  }
  const figures = await audit.expectConverged(provider);
  expect(figures.refused429).toBe(0);
  await audit.expectDecided(relay.acknowledged);
  const exits = programs.map(({ child }) => [child.exitCode, child.signalCode]);
  expect(exits).toEqual(programs.map(() => [null, null]));
  // The reader got each change under its current number, and was never asked to start again.
  const read = async (sql: string) => (await audit.pool.query<Record<string, unknown>>(sql)).rows;
  await expect.poll(() => follower.listMissed(read)).toEqual([]);
  expect(follower.refusals).toEqual([]);
  const { size: acknowledged } = relay.acknowledged;
  noteFigures("36", { failovers: ROUNDS, ...figures, acknowledged, ...relay.counts, lost: 0 });
});
