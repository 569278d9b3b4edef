import { expect, vi } from "vitest";
import { findFreePort } from "../../../src/runtime/postgres/freePort.ts";
import { startEventRelay } from "./eventRelay.ts";
import { noteFigures, seed } from "./extent.ts";
import { startFaultProvider } from "../providers/faultProvider.ts";
import { followFeed } from "../mirror/feedFollower.ts";
import { makeMirrorAudit } from "./mirrorAudit.ts";
import { LIVE_ENV, startProgram, stopPrograms } from "../programs/program.ts";

/** Longest interruption of events and of readers of the feed. */
export const RESUMES_WITHIN_MS = 30_000;
const PATIENCE = { timeout: 120_000, interval: 100 };
const TRAFFIC = { speed: 40, ordersPerMinute: 600 };
const REST = { speed: 0, ordersPerMinute: 0 };

export type FailoverTrial = Awaited<ReturnType<typeof startFailoverTrial>>;

/**
 * The built program's processes under load, on a database whose primary fails over. `databaseUrl` is the address of the
 * current primary; the schema must be current.
 */
export async function startFailoverTrial(databaseUrl: string) {
  const provider = await startFaultProvider({
    seed,
    speed: TRAFFIC.speed,
    trafficPerMinute: TRAFFIC.ordersPerMinute,
    retryBaseMs: 500,
  });
  const audit = makeMirrorAudit(databaseUrl);
  const port = await findFreePort();
  const env = {
    ...LIVE_ENV,
    ...provider.env,
    DATABASE_URL: databaseUrl,
    HOST: "127.0.0.1",
    PORT: String(port),
  };
  const programs = ["web", "worker", "poller"].map((role) => startProgram([role], env));
  await Promise.all(programs.map((program) => program.waitFor(/(?:web|worker|poller) is ready/)));
  const relay = await startEventRelay(`http://127.0.0.1:${port}/webhooks/live`);
  await provider.sendEventsTo(relay.url);
  const follower = followFeed(`http://127.0.0.1:${port}`);
  await vi.waitUntil(() => follower.changes.length > 0, PATIENCE);
  const took: Record<string, number>[] = [];

  /** The mirror's safe_through; 0 while it is unreachable. */
  async function readSafeThrough(): Promise<bigint> {
    const { rows } = await audit.pool
      .query<{ safe_through: string | null }>("select safe_through from mirror.poll_state")
      .catch(() => ({ rows: [] }));
    return BigInt(rows[0]?.safe_through ?? 0);
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

  /** Resolves with how many milliseconds after `sinceMs` it happened. */
  async function waitFor(hasHappened: () => boolean | Promise<boolean>, sinceMs: number): Promise<number> {
    await expect.poll(hasHappened, PATIENCE).toBe(true);
    return Math.round(performance.now() - sinceMs);
  }

  /** Expects that the reader got each change under its current number, and was never asked to start again. */
  async function expectNothingMissed(): Promise<void> {
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
    const received = follower.changes.map(nameOf);
    noteFigures("the reader", {
      changes: keptNames.size,
      "shown and lost": received.filter((name) => !keptNames.has(name)).length,
      "shown again": received.length - new Set(received).size,
      reconnects: follower.reconnects,
    });
  }

  return {
    /** Resolves when the proof has advanced, and more events were acknowledged since; checks the mirror. */
    async runQuietly() {
      await waitForProof(await readSafeThrough(), performance.now());
      const before = relay.acknowledged.size;
      await vi.waitUntil(() => relay.acknowledged.size >= before + 20, PATIENCE);
      expect(await audit.look(provider.readVersions)).toBe(true);
    },
    /**
     * Call it when the new primary is reachable. Waits until events, readers and the proof have resumed, notes how many
     * milliseconds after `sinceMs` each did, and resolves with the later of the first two.
     */
    async goesOn(sinceMs: number, figures: Readonly<Record<string, number>>) {
      const acknowledged = relay.acknowledged.size;
      const followed = follower.changes.length;
      const safeThrough = await readSafeThrough();
      const [eventMs, changeMs] = await Promise.all([
        waitFor(() => relay.acknowledged.size > acknowledged, sinceMs),
        waitFor(() => follower.changes.length > followed, sinceMs),
      ]);
      const proofMs = await waitForProof(safeThrough, sinceMs);
      took.push({ ...figures, eventMs, changeMs, proofMs });
      noteFigures("a failover", { ...figures, eventMs, changeMs, proofMs });
      await audit.look(provider.readVersions);
      expect(audit.violations).toEqual([]);
      return Math.max(eventMs, changeMs);
    },
    /** Ends the load and compares mirror, events and feed with the provider; notes the figures under the row. */
    async expectNothingLost(row: string) {
      await provider.steer("POST", "/dials", REST);
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
      await expectNothingMissed();
      const slowest = Object.keys(took[0] ?? {}).map((name) => [
        name,
        Math.max(...took.map((one) => one[name] ?? 0)),
      ]);
      noteFigures(row, {
        failovers: took.length,
        acknowledged: relay.acknowledged.size,
        ...relay.counts,
        lost: 0,
        ...(Object.fromEntries(slowest) as Record<string, number>),
      });
    },
    async close() {
      await follower.stop();
      await stopPrograms();
      await audit.close();
      await relay.close();
      await provider.close();
    },
  };
}
