import { describe, expect, it, onTestFinished, vi } from "vitest";
import { UnavailableError } from "../../../src/domain/errors.ts";
import { requestRefetches } from "../../../src/poll/refetches.sql.ts";
import type { PollDeps } from "../../../src/poll/pollDeps.ts";
import { PollerClosedError, type Poller } from "../../../src/poll/poller.ts";
import { ProviderError } from "../../../src/provider/errors.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { openPolledMirror, poll, pollUntil } from "../../support/mirror/livePoller.ts";
import { secondsAgo } from "../../support/providers/memoryProvider.ts";
import { logInto } from "../../support/run/logInto.ts";

const { pool, provider, listReferences, makeSut, read } = await openPolledMirror();

const readState = async () =>
  (await read<Record<string, string | null>>("select * from mirror.poll_state"))[0]!;
const readCoverage = () =>
  read<{ sweep: string; since: string; until: string; begun_at: string; proved: boolean }>(
    "select * from mirror.coverage order by coverage_id",
  );
const isWhole = (instant: string | null | undefined) => BigInt(instant!) % 1_000_000_000n === 0n;
const ageOf = (instant: string | null | undefined) => Number(systemClock.now() - BigInt(instant ?? 0)) / 1e9;
/** Polls until the proof reaches almost the present. */
const pollUntilSafe = (poller: Poller) =>
  pollUntil(poller, async () => ageOf((await readState())["safe_through"]) < 15);
/** The messages that a logger has written so far. */
function readLog() {
  const messages: string[] = [];
  const logger = logInto((line) => void messages.push((JSON.parse(line) as { msg: string }).msg), "info");
  return { messages, logger };
}

describe("a new source", () => {
  it("is read from the latest changes to its history, which is recorded as such, and is then proved completely", async () => {
    provider.put("now", secondsAgo(0));
    provider.put("old", secondsAgo(3_000));
    provider.put("older", secondsAgo(3_590));
    provider.put("too old", secondsAgo(3_700));
    const poller = makeSut({ intervalSeconds: 5 });
    expect(await poll(poller)).toMatchObject({ outcome: "polled", applied: 3, unproved: 0 });
    expect(
      await read("select reference, first_seen_via as via, settled from mirror.orders order by 1"),
    ).toEqual([
      { reference: "now", via: "poll", settled: false },
      { reference: "old", via: "backfill", settled: true },
      { reference: "older", via: "backfill", settled: true },
    ]);
    expect((await readCoverage()).map(({ sweep }) => sweep)).toEqual(["proof"]);
    const { history_since, polled_through, safe_through } = await readState();
    expect([history_since, polled_through, safe_through].every(isWhole)).toBe(true);
    expect(ageOf(history_since)).toBeGreaterThan(3_599);
    expect(ageOf(history_since)).toBeLessThan(3_610);
    expect(ageOf(safe_through)).toBeGreaterThan(3);
    expect(ageOf(safe_through)).toBeLessThan(12);
  });

  it("has its long history read in windows, newest first, after the head sweep of every cycle", async () => {
    provider.limitMax = 3;
    for (let order = 0; order < 60; order += 1) provider.put(`R${order}`, secondsAgo(5_000 + order * 86_400));
    provider.before = () => systemClock.sleep(10);
    await pollUntilSafe(makeSut({ backfillSince: "P70D" }));
    expect(await listReferences()).toHaveLength(60);
    const coverage = await readCoverage();
    const parts = coverage.filter(({ until }) => ageOf(until) > 60);
    expect(parts.length).toBeGreaterThan(3);
    // However many pages followed, a window was read from its first one on.
    const firsts = provider.reads.flatMap(({ query, requestedAt }) =>
      query.offset === 0 ? [requestedAt] : [],
    );
    expect(parts.filter(({ begun_at }) => !firsts.includes(BigInt(begun_at)))).toEqual([]);
    for (const [index, part] of parts.entries()) {
      expect(part.proved).toBe(true);
      expect(part.until).toBe(parts[index - 1]?.since ?? part.until);
    }
    const heads = provider.reads.filter(({ query }) => query.until > secondsAgo(0));
    expect(heads.length).toBeGreaterThan(3);
  });
});

it("begins what borders on the proved part at the last known orders, so that an empty list is noticed", async () => {
  const quiet = secondsAgo(1_000);
  provider.put("QUIET", quiet);
  const poller = makeSut();
  await pollUntilSafe(poller);
  const begun = provider.reads.length;
  const seen = () => provider.reads.slice(begun).filter(({ query }) => query.since <= quiet);
  await pollUntil(poller, () => seen().length > 0);
  expect(seen()[0]!.query.until).toBeGreaterThan(secondsAgo(60));
});

it("stamps each read with the instant of its request, as the source's clock tells it", async () => {
  const stamps = { LISTED: secondsAgo(30), SINGLE: secondsAgo(20) };
  provider.put("LISTED", secondsAgo(10));
  // Too old for any window.
  provider.put("SINGLE", secondsAgo(7_200));
  await requestRefetches(pool, { sourceId: "live", references: ["SINGLE"], reason: "test" });
  const client: PollDeps["client"] = {
    ...provider,
    listWindow: async (...query) => ({
      ...(await provider.listWindow(...query)),
      requestedAt: stamps.LISTED,
    }),
    getOrder: async (...query) => ({ ...(await provider.getOrder(...query)), requestedAt: stamps.SINGLE }),
  };
  expect(await makeSut({ client, intervalSeconds: 60 }).runOnce()).toMatchObject({ refetches: 1 });
  const seen = await read("select reference, observed_at from mirror.orders");
  expect(
    Object.fromEntries(seen.map((one) => [one["reference"], BigInt(String(one["observed_at"]))])),
  ).toEqual(stamps);
});

describe("the pace", () => {
  it("allows no cycle before the interval is over, whoever asks", async () => {
    const slow = { intervalSeconds: 3_600 };
    const first = makeSut(slow);
    expect((await first.runOnce()).outcome).toBe("polled");
    const again = await first.runOnce();
    expect(again.outcome).toBe("not_due");
    expect(again.waitMs).toBeGreaterThan(3_000_000);
    await first.close();
    const second = await makeSut(slow).runOnce();
    expect(second.outcome).toBe("not_due");
    expect(second.waitMs).toBeGreaterThan(3_000_000);
    expect(second.waitMs).toBeLessThanOrEqual(3_600_000);
  });

  it("leaves a rate window between one leader's last read and the next leader's first", async () => {
    const first = makeSut();
    await poll(first);
    await first.close();
    const lastMs = provider.reads.at(-1)!.atMs;
    const count = provider.reads.length;
    await poll(makeSut({ rateWindowMs: 400 }));
    expect(provider.reads[count]!.atMs - lastMs).toBeGreaterThanOrEqual(395);
  });
});

it("refuses a history that begins in the future, instead of starting forever", () => {
  expect(() => makeSut({ backfillSince: "2099-01-01T00:00:00Z" })).toThrow(
    "BACKFILL_SINCE is in the future by this machine's clock.",
  );
});

it("the machine's clock may be set back by hours: a started poller goes on", async () => {
  const started = makeSut();
  started.start();
  const read = () => provider.reads.length;
  await vi.waitFor(() => expect(read()).toBeGreaterThan(0), { timeout: 60_000 });
  const Present = Date;
  const setBackMs = 5 * 3_600_000;
  vi.stubGlobal(
    "Date",
    class extends Present {
      constructor(given: number | string = Present.now() - setBackMs) {
        super(given);
      }
      static override now() {
        return Present.now() - setBackMs;
      }
    },
  );
  onTestFinished(() => void vi.unstubAllGlobals());
  const before = read();
  // One cycle may have begun before.
  await vi.waitFor(() => expect(read()).toBeGreaterThan(before + 3), 60_000);
});

it("sends no request once its lease may have expired", async () => {
  provider.limitMax = 5;
  for (let order = 0; order < 12; order += 1) provider.put(`R${order}`, secondsAgo(2.5 + order / 1_000));
  let skippedMs = 0;
  provider.before = () => {
    // While the first page is under way, the process is suspended for longer than the lease.
    skippedMs = 60_000;
  };
  const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + skippedMs };
  const report = await makeSut({ clock }).runOnce();
  expect(report.outcome).toBe("lease_lost");
  expect(provider.reads).toHaveLength(1);
  expect(await readCoverage()).toEqual([]);
});

it("reads nothing while it is paused, lets others lead, and goes on where it was", async () => {
  const poller = makeSut();
  await poll(poller);
  const pause = (at: string) => pool.query(`update mirror.sources set paused_at = ${at}`);
  onTestFinished(async () => void (await pause("null")));
  await pause("now()");
  expect(await poll(poller)).toMatchObject({ outcome: "paused" });
  const reads = provider.reads.length;
  provider.put("MEANWHILE", secondsAgo(0));
  expect(await poll(poller)).toMatchObject({ outcome: "paused" });
  expect(provider.reads).toHaveLength(reads);
  expect(await read("select from mirror.leases where expires_at > clock_timestamp()")).toEqual([]);
  await pause("null");
  await pollUntil(poller, async () => (await listReferences()).length > 0);
});

describe("an interrupted cycle", () => {
  it("keeps the pages that it has applied, and records no window: another process reads that again", async () => {
    provider.limitMax = 5;
    for (let order = 0; order < 23; order += 1) provider.put(`R${order}`, secondsAgo(2.5 + order / 1_000));
    let pages = 0;
    const first = makeSut();
    provider.before = async (signal) => {
      pages += 1;
      if (pages > 2) await systemClock.sleep(60_000, signal);
    };
    const report = first.runOnce();
    await vi.waitFor(() => expect(pages).toBe(3), 60_000);
    const startedMs = performance.now();
    await Promise.all([first.close(), expect(report).rejects.toThrow(PollerClosedError)]);
    // The open request would take a minute.
    expect(performance.now() - startedMs).toBeLessThan(20_000);
    expect((await listReferences()).length).toBeGreaterThanOrEqual(5);
    expect(await readCoverage()).toEqual([]);
    provider.before = () => undefined;
    await poll(makeSut());
    expect(await listReferences()).toHaveLength(23);
  });

  it.each(["a page", "a single read"])(
    "rejects with the caller's reason while it waits for %s",
    async (what) => {
      const waited = () => (what === "a page" ? provider.reads : provider.singleReads);
      provider.before = (signal) =>
        waited().length > 0 ? systemClock.sleep(60_000, signal) : Promise.resolve();
      await requestRefetches(pool, { sourceId: "live", references: ["R1"], reason: "test" });
      const poller = makeSut();
      const abort = new AbortController();
      const report = poller.runOnce(abort.signal);
      await vi.waitFor(() => expect(waited()).toHaveLength(1), 60_000);
      abort.abort(new Error("enough"));
      await expect(report).rejects.toThrow("enough");
      await expect.poll(async () => (await readState())["last_cycle_ended_at"]).not.toBeNull();
      expect((await readState())["last_error"]).toBeNull();
      expect(await read("select from mirror.refetches where attempts > 0")).toEqual([]);
      provider.before = () => undefined;
      expect((await poll(poller)).outcome).toBe("polled");
    },
  );
});

it("retries soon when the database goes away while a page is applied", async () => {
  const gone = new UnavailableError("Postgres could not apply a batch now.");
  const apply = { applyReads: () => Promise.reject(gone) };
  const report = await makeSut({ apply, intervalSeconds: 30 }).runOnce();
  expect(report).toMatchObject({ outcome: "failed", error: gone, waitMs: 5_000 });
});

describe("a provider that fails", () => {
  it.each([
    ["timeout", "slow"],
    ["unavailable", "away"],
    ["unreadable", "away"],
    ["rate_limited", "rate_limited"],
    ["key_refused", "key_refused"],
    ["too_large", "other"],
  ] as const)("with %s is recorded as %s, for the words of the condition", async (failure, trouble) => {
    provider.before = () => {
      throw new ProviderError("no", { failure, retry: { afterMs: 90_000 } });
    };
    const { waitMs } = await makeSut().runOnce();
    expect((await readState())["trouble"]).toBe(trouble);
    // What only a person can end is asked about every minute, whatever it says.
    expect(waitMs).toBe(failure === "key_refused" ? 60_000 : 90_000);
  });

  it("from the first request on has its error stored and visible, and is asked for nothing else", async () => {
    // Any answer shows the time.
    let isSynchronized = false;
    const providerClock = { ...provider.providerClock, isSynchronized: () => isSynchronized };
    const listBranches = () => {
      isSynchronized = true;
      return Promise.reject(new ProviderError("GET /v1/branches was refused", { failure: "key_refused" }));
    };
    const client = { ...provider, providerClock, listBranches };
    expect(await makeSut({ client }).runOnce()).toMatchObject({ outcome: "failed" });
    expect(provider.reads).toEqual([]);
    expect(await readState()).toMatchObject({
      last_error: "GET /v1/branches was refused",
      history_since: null,
    });
    expect((await poll(makeSut({ holder: "next", rateWindowMs: 10 }))).outcome).toBe("not_leading");
  });

  it("has a large window read in shorter ones", async () => {
    provider.limitMax = 3;
    for (let order = 0; order < 200; order += 1) provider.put(`R${order}`, secondsAgo(10 + order * 2));
    const since = secondsAgo(500);
    await pool.query(
      "insert into mirror.poll_state (source_id, history_since, polled_through) values ('live', $1, $1)",
      [since],
    );
    expect(await makeSut().runOnce()).toMatchObject({ outcome: "polled" });
    expect(await listReferences()).toHaveLength(200);
    const bounds = new Set(provider.reads.map(({ query }) => query.until));
    expect(bounds.size).toBeGreaterThan(5);
  });

  it("with a refused key is asked slowly and logged once", async () => {
    const { messages, logger } = readLog();
    let skippedMs = 0;
    const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + skippedMs };
    const poller = makeSut({ logger, clock, leaseTtlMs: 3_600_000 });
    provider.before = () => {
      throw new ProviderError("GET /v1/orders was refused", { failure: "key_refused" });
    };
    for (let attempt = 0; attempt < 3; attempt += 1) {
      const report = await poll(poller);
      expect(report).toMatchObject({ outcome: "failed", waitMs: 60_000 });
      expect(await poller.runOnce()).toMatchObject({ outcome: "not_due" });
      skippedMs += 60_001;
    }
    provider.before = () => undefined;
    await poll(poller);
    expect(messages.filter((message) => message.startsWith("polling"))).toEqual([
      "polling failed; it resumes from the same place",
      "polling works again",
    ]);
  });
});

it("a failure beside the head sweep is not called one of polling", async () => {
  const { messages, logger } = readLog();
  const refuse = () => Promise.reject(new ProviderError("was refused", { failure: "rate_limited" }));
  const poller = makeSut({ logger, client: { ...provider, getOrder: refuse } });
  await poll(poller);
  await requestRefetches(pool, { sourceId: "live", references: ["R1"], reason: "manual" });
  await pollUntil(poller, () => messages.length > 1);
  expect(messages).toContain("reading outside the head sweep failed; it will be retried later");
  expect(messages).not.toContainEqual(expect.stringMatching("polling failed"));
});

it("a row stamped in the future moves no cursor, and is read when its time comes", async () => {
  provider.put("R1", secondsAgo(-3));
  provider.put("R2", secondsAgo(-50));
  const poller = makeSut();
  await requestRefetches(pool, { sourceId: "live", references: ["R2"], reason: "manual" });
  await pollUntil(poller, async () => (await listReferences()).includes("R2"));
  await poll(poller);
  const { polled_through } = await readState();
  expect(BigInt(polled_through!)).toBeLessThanOrEqual(systemClock.now());
  await pollUntil(poller, async () => (await listReferences()).includes("R1"));
});
