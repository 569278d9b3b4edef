import { expect, it } from "vitest";
import { cancelRequest, readRequest, requestPeriod } from "../../../src/poll/periodRequests.sql.ts";
import type { Poller } from "../../../src/poll/poller.ts";
import { ProviderError } from "../../../src/provider/errors.ts";
import { openPolledMirror, pollUntil } from "../../support/mirror/livePoller.ts";
import { readPollState } from "../../support/mirror/tables.ts";
import { secondsAgo } from "../../support/providers/memoryProvider.ts";

const DAY = 86_400;
const SECOND = 10n ** 9n;
const daysAgo = (days: number) => (secondsAgo(days * DAY) / SECOND) * SECOND;

const { pool, provider, listReferences, makeSut } = await openPolledMirror({ backfillSince: "PT1M" });

const ask = (since: bigint, until: bigint) =>
  requestPeriod(pool, { kind: "backfill", sourceId: "live", since, until });
const read = async (id: bigint) => (await readRequest(pool, id))!;
const pollUntilDone = (poller: Poller, id: bigint) =>
  pollUntil(poller, async () => (await read(id)).state === "done");
const readProgress = async () => (await readPollState(pool, "live"))!;
const pollUntilSafe = (poller: Poller) =>
  pollUntil(poller, async () => (await readProgress()).safeThrough !== null);

it("reads the period and extends the complete history back to it", async () => {
  for (const days of [1, 5, 9.9, 10.1]) provider.put(`D${days}`, secondsAgo(days * DAY));
  const poller = makeSut();
  await pollUntilSafe(poller);
  const since = daysAgo(10);
  const id = await ask(since, daysAgo(0));
  await pollUntilDone(poller, id);
  expect(await listReferences()).toEqual(["D1", "D5", "D9.9"]);
  const { historySince, polledThrough } = await readProgress();
  expect(historySince).toBe(since);
  expect(polledThrough).toBeGreaterThan(daysAgo(0.01));
  expect(await read(id)).toMatchObject({ orders: 3, unproved: 0 });
});

it("joins the history of a new source, whose beginning is too recent to be proved", async () => {
  const since = daysAgo(1);
  const id = await ask(since, daysAgo(0) + 60n * SECOND);
  await pollUntilDone(makeSut({ backfillSince: "PT0S" }), id);
  expect((await readProgress()).historySince).toBe(since);
});

it("claims nothing across a period that was never read", async () => {
  provider.put("old", secondsAgo(9 * DAY));
  const poller = makeSut();
  await pollUntilSafe(poller);
  const before = (await readProgress()).historySince;
  await pollUntilDone(poller, await ask(daysAgo(10), daysAgo(8)));
  expect(await listReferences()).toEqual(["old"]);
  expect((await readProgress()).historySince).toBe(before);
  await pollUntilDone(poller, await ask(daysAgo(8), daysAgo(0)));
  // The two periods touch only at a whole second; the older one may begin a second earlier.
  expect((await readProgress()).historySince).toBeLessThanOrEqual(daysAgo(8));
});

it("continues under the next leader where the last one stopped", async () => {
  for (let day = 1; day < 40; day += 1) provider.put(`D${day}`, secondsAgo(day * DAY));
  provider.limitMax = 1;
  const first = makeSut({ intervalSeconds: 0.001 });
  const id = await ask(daysAgo(40), daysAgo(0));
  await pollUntil(first, async () => (await read(id)).orders > 3);
  await first.close();
  const stopped = await read(id);
  expect(stopped.state).toBe("running");
  const reads = provider.reads.length;
  await pollUntilDone(makeSut(), id);
  // Besides, what borders on the proved part begins at the last known orders.
  const again = provider.reads
    .slice(reads)
    .filter(({ query }) => query.until < daysAgo(4) && query.since > stopped.readDownTo + 2n * SECOND);
  expect(again).toEqual([]);
  expect(await listReferences()).toHaveLength(39);
});

it("stops when it is cancelled, and fails after repeated failures, behind the ones after it", async () => {
  provider.put("old", secondsAgo(5 * DAY));
  const cancelled = await ask(daysAgo(9), daysAgo(8));
  expect(await cancelRequest(pool, cancelled)).toBe(true);
  expect(await cancelRequest(pool, cancelled)).toBe(false);
  provider.before = () => {
    if (provider.reads.at(-1)!.query.since > daysAgo(2)) return;
    throw new ProviderError("the past is away", { failure: "unavailable" });
  };
  const failing = await ask(daysAgo(9), daysAgo(2.5));
  const next = await ask(daysAgo(1.5), daysAgo(1));
  await pollUntil(makeSut({ intervalSeconds: 0.005 }), async () => (await read(failing)).state === "failed");
  expect(await read(failing)).toMatchObject({ lastError: "the past is away", orders: 0 });
  expect((await read(cancelled)).state).toBe("cancelled");
  expect(await listReferences()).toEqual([]);
  const { rows } = await pool.query<{ id: string }>(
    "select request_id as id from mirror.period_requests where state <> 'cancelled' order by ended_at",
  );
  expect(rows.map(({ id }) => BigInt(id))).toEqual([next, failing]);
});
