import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { findFreePort } from "../../src/postgres/freePort.ts";
import { startEventRelay, type EventRelay } from "../support/faults/events.ts";
import { isShort, noteFigures, seed } from "../support/faults/extent.ts";
import { startFaultProxy, type FaultProxy } from "../support/faults/faultProxy.ts";
import { portOf, through } from "../support/faults/faultWorld.ts";
import { makeMirrorAudit, type MirrorAudit } from "../support/faults/mirrorAudit.ts";
import { followFeed, type FeedFollower } from "../support/mirror/served.ts";
import { LIVE_ENV, startProgram, stopPrograms, type RunningProgram } from "../support/programs/program.ts";
import { startFaultProvider, type FaultProvider } from "../support/providers/faultProvider.ts";
import {
  startOwnPostgres,
  type OwnPostgres,
  promote,
  startStandby,
  waitForStandby,
} from "../support/servers/ownPostgres.ts";

const ROUNDS = isShort ? 1 : 5;
/** Longest interruption of events and of readers of the feed. */
const RESUMES_WITHIN_MS = 30_000;
const PATIENCE = { timeout: 120_000, interval: 100 };
const TRAFFIC = { speed: 40, ordersPerMinute: 600 };
const REST = { speed: 0, ordersPerMinute: 0 };

let primary: OwnPostgres;
let standby: OwnPostgres;
/** The address that a failover moves, as HAProxy or a virtual address does. */
let address: FaultProxy;
let provider: FaultProvider;
let audit: MirrorAudit;
let programs: RunningProgram[];
let relay: EventRelay;
let follower: FeedFollower;

beforeEach(async () => {
  primary = await startOwnPostgres();
  standby = await startStandby(primary);
  await waitForStandby(primary);
  address = await startFaultProxy(portOf(primary.url));
  const databaseUrl = through(primary.url, address);
  const { speed, ordersPerMinute } = TRAFFIC;
  provider = await startFaultProvider({ seed, speed, trafficPerMinute: ordersPerMinute, retryBaseMs: 500 });
  audit = makeMirrorAudit(databaseUrl);
  const port = String(await findFreePort());
  const env = { ...LIVE_ENV, ...provider.env, DATABASE_URL: databaseUrl, HOST: "127.0.0.1", PORT: port };
  programs = ["web", "worker", "poller"].map((role) => startProgram([role], env));
  await Promise.all(programs.map((program) => program.waitFor(/(?:web|worker|poller) is ready/)));
  relay = await startEventRelay(`http://127.0.0.1:${port}/webhooks/live`);
  await provider.sendEventsTo(relay.url);
  follower = followFeed(`http://127.0.0.1:${port}`);
  await vi.waitUntil(() => follower.changes.length > 0, PATIENCE);
});
afterEach(async () => {
  await follower.stop();
  await stopPrograms();
  await audit.close();
  await relay.close();
  await provider.close();
  await address.close();
  await standby.remove();
  await primary.remove();
});

/** The mirror's safe_through; 0 while it is unreachable. */
async function readSafeThrough(): Promise<bigint> {
  const { rows } = await audit.pool
    .query<{ safe_through: string | null }>("select safe_through from mirror.poll_state")
    .catch(() => ({ rows: [] }));
  return BigInt(rows[0]?.safe_through ?? 0);
}

/** Resolves with how many milliseconds after `sinceMs` it happened. */
async function waitFor(hasHappened: () => boolean | Promise<boolean>, sinceMs: number): Promise<number> {
  await expect.poll(hasHappened, PATIENCE).toBe(true);
  return Math.round(performance.now() - sinceMs);
}

/**
 * Waits while the provider rests: it makes orders at the same pace on every machine, and on one that is too slow for
 * that the poller would never catch up.
 */
async function waitForProof(safeThrough: bigint, sinceMs: number): Promise<number> {
  await provider.steer("POST", "/dials", REST);
  const tookMs = await waitFor(async () => (await readSafeThrough()) > safeThrough, sinceMs);
  await provider.steer("POST", "/dials", TRAFFIC);
  return tookMs;
}

/** Kills the primary under load, promotes its synchronous standby and moves the address. */
async function failOver(): Promise<void> {
  await waitForProof(await readSafeThrough(), performance.now());
  const before = relay.acknowledged.size;
  await vi.waitUntil(() => relay.acknowledged.size >= before + 20, PATIENCE);
  expect(await audit.look(provider.readVersions)).toBe(true);
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
  expect(Math.max(eventMs, changeMs)).toBeLessThan(RESUMES_WITHIN_MS);
}

/** Expects that the reader got each change under its current number, and was never asked to start again. */
async function expectNothingMissed(): Promise<void> {
  const nameOf = (change: { number: string; reference: string; revision: number }) =>
    `${change.number} ${change.reference} ${change.revision}`;
  const { rows } = await audit.pool.query<{ number: string; reference: string; revision: number }>(
    "select position as number, reference, revision from mirror.changes order by position",
  );
  const missed = () => {
    const seen = new Set(follower.changes.map(nameOf));
    return rows.map(nameOf).filter((name) => !seen.has(name));
  };
  await expect.poll(missed, PATIENCE).toEqual([]);
  expect(follower.refusals).toEqual([]);
}

it(
  "a promoted standby has everything acknowledged; polling, proof and readers resume (row 36)",
  async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      if (round > 0) {
        standby = await startStandby(primary);
        await waitForStandby(primary);
      }
      await failOver();
      await audit.look(provider.readVersions);
      expect(audit.violations).toEqual([]);
    }
    await provider.steer("POST", "/dials", REST);
    const quietAt = provider.sandbox.now();
    await audit.expectEqual(provider.readTruth);
    await audit.expectSafe(quietAt);
    await audit.expectDecided(relay.acknowledged);
    await audit.expectWholeFeed();
    expect(await audit.look(provider.readVersions)).toBe(true);
    expect(audit.violations).toEqual([]);
    expect(await provider.countAnswers(429)).toBe(0);
    const exits = programs.map(({ child }) => [child.exitCode, child.signalCode]);
    expect(exits).toEqual(programs.map(() => [null, null]));
    await expectNothingMissed();
    const { size: acknowledged } = relay.acknowledged;
    noteFigures("36", { failovers: ROUNDS, acknowledged, ...relay.counts, lost: 0 });
  },
  15 * 60_000,
);
