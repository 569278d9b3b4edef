import { beforeEach, onTestFinished, vi } from "vitest";
import type { PollDeps } from "../../../src/poll/pollDeps.ts";
import { makePoller, type Poller } from "../../../src/poll/poller.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { makeMemoryProvider } from "../providers/memoryProvider.ts";
import { makeLiveApply } from "./liveApply.ts";
import { openLiveMirror } from "./liveMirror.ts";
import { EMPTY_MIRROR } from "./tables.ts";

/** A poller of the source `live` in real time, with its own holder; closed at the end of the test. */
export function makeLivePoller(deps: Pick<PollDeps, "client" | "pool"> & Partial<PollDeps>): Poller {
  const poller = makePoller({
    source: { sourceId: "live" },
    apply: makeLiveApply(deps.pool),
    clock: systemClock,
    logger: silentLogger,
    intervalSeconds: 0.05,
    backfillSince: "PT1H",
    marginSeconds: 3,
    pace: "cycle",
    holder: `test-${Math.random()}`,
    rateWindowMs: 0,
    ...deps,
  });
  onTestFinished(() => poller.close());
  return poller;
}

/** A mirror and its provider in memory, both empty before each test; `makeSut` makes a poller, by default one like this. */
export async function openPolledMirror(like: Partial<PollDeps> = {}) {
  const mirror = await openLiveMirror({ max: 6, statementTimeoutMs: 10_000 });
  const { pool } = mirror;
  const provider = makeMemoryProvider();
  beforeEach(async () => {
    provider.reset();
    await pool.query(EMPTY_MIRROR);
  });
  const makeSut = (more: Partial<PollDeps> = {}) =>
    makeLivePoller({ client: provider, pool, ...like, ...more });
  return { ...mirror, provider, makeSut };
}

/** Runs cycles until one was due, and returns its report. */
export function poll(poller: Poller) {
  return vi.waitUntil(
    async () => {
      const report = await poller.runOnce();
      return report.outcome === "not_due" ? undefined : report;
    },
    { timeout: 60_000, interval: 5 },
  );
}

/** Polls until that holds after a cycle. */
export async function pollUntil(poller: Poller, reached: () => Promise<boolean> | boolean): Promise<void> {
  await vi.waitUntil(
    async () => {
      await poll(poller);
      return reached();
    },
    { timeout: 300_000, interval: 1 },
  );
}
