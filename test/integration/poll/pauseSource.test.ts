import { expect, it, onTestFinished } from "vitest";
import { makeLivePoller } from "../../support/mirror/livePoller.ts";
import { runCommand } from "../../support/programs/command.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { makeMemoryProvider, secondsAgo } from "../../support/providers/memoryProvider.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";

it("stops polling while paused, and resumes where it left off", async () => {
  const { database, pool } = await openLiveMirror({ statementTimeoutMs: 10_000, ends: onTestFinished });
  await addSource(pool, "other");
  const startPoller = (sourceId: string) => {
    const provider = makeMemoryProvider();
    const poller = makeLivePoller({
      source: { sourceId },
      client: provider,
      pool,
      apply: makeLiveApply(pool, sourceId),
      backfillSince: "PT1M",
    });
    return { provider, poller };
  };
  const live = startPoller("live");
  const other = startPoller("other");
  const outcome = async () => (await live.poller.runOnce()).outcome;
  await expect.poll(outcome, { timeout: 60_000 }).toBe("polled");
  const run = (action: string) => runCommand(["source", action, "live"], { databaseUrl: database.url });

  expect(await run("pause")).toMatchObject({ code: 0, stdout: "Polling of source live is now paused.\n" });
  expect(await run("pause")).toMatchObject({ stdout: "Polling of source live is already paused.\n" });
  await expect.poll(outcome, { timeout: 60_000 }).toBe("paused");
  const reads = live.provider.reads.length;
  const leases = await pool.query("select from mirror.leases where expires_at > clock_timestamp()");
  expect(leases.rowCount).toBe(0);
  live.provider.put("during", secondsAgo(1));
  await expect.poll(async () => (await other.poller.runOnce()).outcome, { timeout: 60_000 }).toBe("polled");
  expect(["paused", "not_due"]).toContain(await outcome());
  expect(live.provider.reads).toHaveLength(reads);
  const { stdout } = await runCommand(["status"], { databaseUrl: database.url });
  expect(stdout).toMatch(/polling +paused/);

  expect(await run("resume")).toMatchObject({ stdout: "Polling of source live is no longer paused.\n" });
  expect(await run("resume")).toMatchObject({ stdout: "Polling of source live is not paused.\n" });
  const mirrored = async () => {
    await live.poller.runOnce();
    return (await pool.query("select from mirror.orders where reference = 'during'")).rowCount;
  };
  await expect.poll(mirrored, { timeout: 60_000 }).toBe(1);
  expect(await runCommand(["source", "pause", "nobody"], { databaseUrl: database.url })).toMatchObject({
    code: 2,
  });
});
