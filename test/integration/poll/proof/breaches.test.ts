import { describe, expect, it } from "vitest";
import { formatInstant, type Instant } from "../../../../src/domain/order/instant.ts";
import { readBreaches } from "../../../support/mirror/tables.ts";
import { requestRefetches } from "../../../../src/poll/refetches.sql.ts";
import { requestPeriod } from "../../../../src/poll/periodRequests.sql.ts";
import { systemClock } from "../../../../src/process/clock.ts";
import { openPolledMirror, pollUntil } from "../../../support/mirror/livePoller.ts";
import { secondsAgo } from "../../../support/providers/memoryProvider.ts";

const { pool, provider, tell, listReferences, makeSut, read } = await openPolledMirror();

const readSync = async () =>
  (
    await read<{ safe: string; exceptions: number; breaches: number }>(
      `select coalesce(p.safe_through, 0) as safe, s.exceptions::int, s.breaches::int
       from reporting.sync_status s join mirror.poll_state p using (source_id)`,
    )
  )[0]!;
const breaches = () => readBreaches(pool, { sourceId: "live", after: 0n, limit: 100 });

const isSafe = async () => Number(systemClock.now() - BigInt((await readSync()).safe)) / 1e9 < 20;
/** The proof sweep begins before the last orders of the proved part: at these, not at what a test changes before them. */
const putRecent = () => [40, 50, 60].forEach((age) => provider.put(`RECENT${age}`, secondsAgo(age)));
const isReproved = async () =>
  (await breaches()).length > 0 && (await breaches()).every(({ reprovedAt }) => reprovedAt !== null);

const announce = (reference: string, updatedAt: Instant, status = "cancelled") =>
  tell({ reference, updatedAt: formatInstant(updatedAt), status });

describe("a change that a read finds in a proved window", () => {
  it("withdraws the proof around it, and the span is read and proved again", async () => {
    for (let age = 100; age <= 3_500; age += 100) provider.put(`R${age}`, secondsAgo(age));
    const poller = makeSut();
    await pollUntil(poller, isSafe);
    const before = BigInt((await readSync()).safe);
    // They appear late; one of them is refetched for another reason.
    const version = secondsAgo(1_800);
    provider.put("LATE", version);
    provider.put("LATER", secondsAgo(1_790));
    await requestRefetches(pool, { sourceId: "live", references: ["LATE"], reason: "asked" });
    await pollUntil(poller, async () => (await breaches()).length > 0);
    const [breach, ...more] = await breaches();
    expect(more).toEqual([]);
    expect(breach).toMatchObject({ kind: "missed_change", reference: "LATE", version, foundBy: "refetch" });
    expect(breach!.since).toBeLessThanOrEqual(version);
    expect(breach!.until).toBeGreaterThan(version);
    expect(breach!.safeThroughBefore).toBeGreaterThanOrEqual(before);
    expect(breach!.safeThroughAfter).toBe(breach!.since);
    await pollUntil(poller, async () => (await isReproved()) && (await isSafe()));
    expect(await listReferences()).toContain("LATER");
    expect(await read("select from reporting.coverage_gaps")).toEqual([]);
    expect(await readSync()).toMatchObject({ breaches: 1, exceptions: 0 });
  });

  it("is a breach when a verification finds other content under the same updatedAt", async () => {
    const version = secondsAgo(1_800);
    provider.put("R1", version);
    putRecent();
    const poller = makeSut();
    await pollUntil(poller, isSafe);
    provider.put("R1", version, { status: "cancelled" });
    const window = { since: secondsAgo(1_900), until: secondsAgo(1_700) };
    await requestPeriod(pool, { kind: "verification", sourceId: "live", ...window });
    await pollUntil(poller, isReproved);
    expect(await breaches()).toMatchObject([{ kind: "differing", reference: "R1", foundBy: "verify" }]);
  });
});

describe("an event about a change in a proved window", () => {
  it("is an exception until a refetch confirms it, then a breach", async () => {
    const poller = makeSut();
    await pollUntil(poller, isSafe);
    const changedAt = secondsAgo(1_100);
    provider.put("NEW", changedAt);
    await announce("NEW", changedAt, "created");
    expect(await readSync()).toMatchObject({ exceptions: 1, breaches: 0 });
    await pollUntil(poller, isReproved);
    expect(await breaches()).toMatchObject([{ kind: "late_event", reference: "NEW", version: changedAt }]);
    expect(await readSync()).toMatchObject({ exceptions: 0, breaches: 1 });
  });

  it("causes a refetch even when a read had refuted it, which finds other late changes", async () => {
    const changedAt = secondsAgo(1_100);
    provider.put("ANNOUNCED", secondsAgo(3_000));
    putRecent();
    const poller = makeSut();
    await pollUntil(poller, isSafe);
    // A lagging list has caught up: 21 orders changed 16 to 21 minutes ago, and one event reports it.
    for (let late = 0; late < 20; late += 1) provider.put(`LATE${late}`, secondsAgo(960 + 15 * late));
    provider.put("ANNOUNCED", changedAt, { status: "cancelled" });
    await announce("ANNOUNCED", changedAt);
    expect(await readSync()).toMatchObject({ exceptions: 1, breaches: 0 });
    expect(await read("select kind, reference from mirror.exceptions")).toEqual([
      { kind: "late_event", reference: "ANNOUNCED" },
    ]);
    await pollUntil(poller, isReproved);
    expect(await breaches()).toMatchObject([
      { kind: "missed_change", reference: "ANNOUNCED", foundBy: "refetch" },
    ]);
    expect(await listReferences()).toHaveLength(24);
    expect(await readSync()).toMatchObject({ exceptions: 0, breaches: 1 });
  });
});

it("an unreadable order is an exception, and no breach once it can be read", async () => {
  provider.put("R1", secondsAgo(600));
  provider.serveToo(JSON.stringify({ reference: "BAD", status: "created", updatedAt: "yesterday" }));
  const poller = makeSut();
  await pollUntil(poller, isSafe);
  expect(await readSync()).toMatchObject({ exceptions: 1, breaches: 0 });
  provider.put("BAD", secondsAgo(500));
  await pollUntil(poller, async () => (await listReferences()).includes("BAD"));
  expect(await breaches()).toEqual([]);
});
