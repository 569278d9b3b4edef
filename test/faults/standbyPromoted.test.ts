import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { findFreePort } from "../../src/runtime/postgres/freePort.ts";
import { startEventRelay } from "../support/faults/eventRelay.ts";
import type { EventRelay } from "../support/faults/eventRelay.ts";
import { isShort, noteFigures, seed } from "../support/faults/extent.ts";
import { startFaultProvider } from "../support/providers/faultProvider.ts";
import type { FaultProvider } from "../support/providers/faultProvider.ts";
import { startFaultProxy } from "../support/faults/faultProxy.ts";
import type { FaultProxy } from "../support/faults/faultProxy.ts";
import { portOf, through } from "../support/faults/faultWorld.ts";
import { followFeed } from "../support/mirror/feedFollower.ts";
import type { FeedFollower } from "../support/mirror/feedFollower.ts";
import { makeMirrorAudit } from "../support/faults/mirrorAudit.ts";
import type { MirrorAudit } from "../support/faults/mirrorAudit.ts";
import { startOwnPostgres } from "../support/servers/ownPostgres.ts";
import type { OwnPostgres } from "../support/servers/ownPostgres.ts";
import { startProgram, stopPrograms } from "../support/programs/program.ts";
import type { RunningProgram } from "../support/programs/program.ts";
import { promote, startStandby, waitForStandby } from "../support/servers/replica.ts";
import { WEBHOOK_SECRET } from "../support/signing/webhooks.ts";

const ROUNDS = isShort ? 1 : 5;
const RESUMES_WITHIN_MS = 30_000;
const PATIENCE = { timeout: 120_000, interval: 100 };

let provider: FaultProvider;
let primary: OwnPostgres;
let standby: OwnPostgres;
/** The address that a failover moves, as HAProxy or a virtual address does. */
let address: FaultProxy;
let relay: EventRelay;
let audit: MirrorAudit;
let follower: FeedFollower;
let programs: RunningProgram[];

beforeEach(async () => {
  provider = await startFaultProvider({ seed, speed: 40, trafficPerMinute: 600, retryBaseMs: 500 });
  primary = await startOwnPostgres();
  standby = await startStandby(primary);
  await waitForStandby(primary);
  address = await startFaultProxy(portOf(primary.url));
  audit = makeMirrorAudit(through(primary.url, address));
  const port = await findFreePort();
  const env = {
    ...provider.env,
    DATABASE_URL: through(primary.url, address),
    HOST: "127.0.0.1",
    PORT: String(port),
    DELIVERY_LIVE_API_KEY: "dos_live_sandbox",
    DELIVERY_LIVE_WEBHOOK_SECRETS: WEBHOOK_SECRET,
    LOG_FORMAT: "json",
  };
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
  await address.close();
  await standby.remove();
  await primary.remove();
  await provider.close();
});

/** Up to where the mirror vouches for every change; 0 while it is away. */
async function readSafeThrough(): Promise<bigint> {
  const { rows } = await audit.pool
    .query<{ safe_through: string | null }>("select safe_through from mirror.poll_state")
    .catch(() => ({ rows: [] }));
  return BigInt(rows[0]?.safe_through ?? 0);
}

/** How many milliseconds after `sinceMs` it has happened. */
async function waitFor(hasHappened: () => boolean | Promise<boolean>, sinceMs: number): Promise<number> {
  await expect.poll(hasHappened, PATIENCE).toBe(true);
  return Math.round(performance.now() - sinceMs);
}

/** Kills the primary under load, promotes its synchronous standby, moves the address; returns how long what took. */
async function failOver(): Promise<Record<string, number>> {
  const killedMs = performance.now();
  await primary.kill();
  await promote(standby);
  await primary.remove();
  primary = standby;
  address.moveTo(portOf(primary.url));
  const movedMs = performance.now();
  const acknowledged = relay.acknowledged.size;
  const followed = follower.changes.length;
  const safeThrough = await readSafeThrough();
  const [eventMs, changeMs, proofMs] = await Promise.all([
    waitFor(() => relay.acknowledged.size > acknowledged, movedMs),
    waitFor(() => follower.changes.length > followed, movedMs),
    waitFor(async () => (await readSafeThrough()) > safeThrough, movedMs),
  ]);
  expect(Math.max(eventMs, changeMs)).toBeLessThan(RESUMES_WITHIN_MS);
  return { promotedMs: Math.round(movedMs - killedMs), eventMs, changeMs, proofMs };
}

it(
  "a promoted standby has all that was acknowledged; polling, proof and readers go on by themselves (row 36)",
  async () => {
    const took: Record<string, number>[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      if (round > 0) {
        standby = await startStandby(primary);
        await waitForStandby(primary);
      }
      const before = { events: relay.acknowledged.size, safeThrough: await readSafeThrough() };
      await vi.waitUntil(() => relay.acknowledged.size >= before.events + 20, PATIENCE);
      await expect.poll(async () => (await readSafeThrough()) > before.safeThrough, PATIENCE).toBe(true);
      expect(await audit.look(provider.readVersions)).toBe(true);
      took.push(await failOver());
      await audit.look(provider.readVersions);
      expect(audit.violations).toEqual([]);
    }

    await provider.steer("POST", "/dials", { speed: 0, ordersPerMinute: 0 });
    const quietAt = provider.sandbox.now();
    await audit.expectEqual(provider.readTruth);
    await audit.expectSafe(quietAt);
    await audit.expectDecided(relay.acknowledged);
    await audit.expectWholeFeed();
    expect(await audit.look(provider.readVersions)).toBe(true);
    expect(audit.violations).toEqual([]);
    expect(await provider.countAnswers(429)).toBe(0);
    expect(programs.map(({ child }) => [child.exitCode, child.signalCode])).toEqual(
      programs.map(() => [null, null]),
    );

    // The reader got each change under the number that it has now, and was never told to begin again.
    const nameOf = (change: { number: string; reference: string; revision: number }) =>
      `${change.number} ${change.reference} ${change.revision}`;
    const { rows: kept } = await audit.pool.query<{ number: string; reference: string; revision: number }>(
      "select position as number, reference, revision from mirror.changes order by position",
    );
    const missed = () => {
      const seen = new Set(follower.changes.map(nameOf));
      return kept.map(nameOf).filter((name) => !seen.has(name));
    };
    await expect.poll(missed, PATIENCE).toEqual([]);
    expect(follower.refusals).toEqual([]);
    const keptNames = new Set(kept.map(nameOf));
    const slowest = (name: string) => Math.max(...took.map((one) => one[name] ?? 0));
    noteFigures("36", {
      failovers: ROUNDS,
      acknowledged: relay.acknowledged.size,
      ...relay.counts,
      lost: 0,
      "promoted after ms": slowest("promotedMs"),
      "event acknowledged after ms": slowest("eventMs"),
      "change at the reader after ms": slowest("changeMs"),
      "proof goes on after ms": slowest("proofMs"),
      changes: kept.length,
      "shown and lost": follower.changes.filter((change) => !keptNames.has(nameOf(change))).length,
      "shown again": follower.changes.length - new Set(follower.changes.map(nameOf)).size,
      reconnects: follower.reconnects,
    });
  },
  15 * 60_000,
);
