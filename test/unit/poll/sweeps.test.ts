import { describe, expect, it } from "vitest";
import { gaps } from "../../../src/domain/window/coverage.ts";
import { formatInstant, parseInstant } from "../../../src/domain/order/instant.ts";
import type { Window } from "../../../src/domain/window/window.ts";
import type { Term } from "../../../src/poll/leader/leadership.ts";
import { makeBackfillSweep, makeDelayedSweep, makeFastSweep } from "../../../src/poll/sweeps/sweeps.ts";
import type { Sweep, SweepView } from "../../../src/poll/sweeps/sweeps.ts";

const TERM: Term = {
  lease: { name: "poll:live", holder: "test", fence: 1n },
  signal: new AbortController().signal,
  assertLeading: () => undefined,
};
const at = (time: string) => parseInstant(`2026-03-01T${time}Z`);
const options = { settleSeconds: 5, overlapSeconds: 60, intervalSeconds: 30 };
const view = (more: Partial<SweepView> = {}): SweepView => ({
  providerNow: at("12:00:00.7"),
  cycleStartedAt: at("12:00:00.7"),
  nowMs: 0,
  historySince: at("00:00:00"),
  polledThrough: at("11:59:25"),
  safeThrough: undefined,
  openRequests: [],
  windowsRead: 0,
  ...more,
});
const show = (window: Window | undefined) =>
  window && `${formatInstant(window.since).slice(11, -1)} ${formatInstant(window.until).slice(11, -1)}`;
const next = async (sweep: Sweep, more: Partial<SweepView> = {}) => show(await sweep.next(view(more), TERM));
const note = (
  sweep: Sweep,
  window: string,
  more: { proved?: boolean; requests?: number; nowMs?: number } = {},
) => {
  const [since = "", until = ""] = window.split(" ");
  void sweep.noteRead(
    { since: at(since), until: at(until) },
    { proved: true, requests: 1, orders: 0, nowMs: 0, term: TERM, signal: TERM.signal, ...more },
  );
};
const HOUR: Window = { since: 0n, until: 3_600n * 10n ** 9n };

describe("the fast sweep", () => {
  it("reads from the overlap before the cursor to the settled present, once a cycle", async () => {
    const sweep = makeFastSweep(options);
    expect(await next(sweep)).toBe("11:58:25 11:59:55");
    expect(await next(sweep, { windowsRead: 1, polledThrough: at("11:59:55") })).toBeUndefined();
  });
  it("reads its overlap even when nothing lies beyond the cursor", async () => {
    expect(await next(makeFastSweep(options), { polledThrough: at("11:59:55") })).toBe("11:58:55 11:59:55");
  });
  it("catches up hour by hour, only to the start of the cycle", async () => {
    const sweep = makeFastSweep(options);
    expect(await next(sweep, { polledThrough: at("09:30:00") })).toBe("09:29:00 10:30:00");
    const later = { windowsRead: 2, providerNow: at("12:04:00"), polledThrough: at("11:30:00") };
    expect(await next(sweep, later)).toBe("11:29:00 11:59:55");
    expect(await next(sweep, { ...later, polledThrough: at("11:59:55") })).toBeUndefined();
  });
  it("reads nothing beyond the present when an answer has set the clock back in the middle of a cycle", async () => {
    const corrected = { cycleStartedAt: at("23:00:00"), providerNow: at("12:00:00.7"), windowsRead: 1 };
    const sweep = makeFastSweep(options);
    expect(await next(sweep, { ...corrected, polledThrough: at("10:30:00") })).toBe("10:29:00 11:30:00");
    expect(await next(sweep, { ...corrected, polledThrough: at("11:30:00") })).toBe("11:29:00 11:59:55");
    expect(await next(sweep, { ...corrected, polledThrough: at("11:59:55") })).toBeUndefined();
  });
  it("reads shorter windows after one that was too large, then longer ones again", async () => {
    const sweep = makeFastSweep(options);
    const behind = { polledThrough: at("08:00:00") };
    sweep.span.shorten(HOUR);
    expect(await next(sweep, behind)).toBe("07:59:00 08:30:00");
    sweep.span.shorten(HOUR);
    expect(await next(sweep, behind)).toBe("07:59:00 08:15:00");
    note(sweep, "07:59:00 08:15:00");
    note(sweep, "07:59:00 08:15:00");
    note(sweep, "07:59:00 08:15:00");
    expect(await next(sweep, behind)).toBe("07:59:00 09:00:00");
  });
  it("proves nothing, because its windows are too recent", () => {
    expect(makeFastSweep(options).proves).toBe(false);
  });
});

describe("the delayed sweep", () => {
  it("reads the last quarter of an hour, up to where nothing more can appear", async () => {
    const sweep = makeDelayedSweep(options);
    // 66 s: settle, overlap, and a second for the clock.
    expect(await next(sweep)).toBe("11:43:54 11:58:54");
    expect(sweep.proves).toBe(true);
  });
  it("runs again after four cycles", async () => {
    const sweep = makeDelayedSweep(options);
    note(sweep, (await next(sweep))!, { nowMs: 1_000 });
    expect(await next(sweep, { nowMs: 120_999 })).toBeUndefined();
    expect(await next(sweep, { nowMs: 121_000 })).toBeDefined();
  });
  it("occasionally reads as far back as changes were late, and proves recent windows in between", async () => {
    const sweep = makeDelayedSweep({ ...options, lookbackSeconds: 3_600 });
    expect(await next(sweep)).toBe("10:58:54 11:13:54");
    for (const window of [
      "10:58:54 11:13:54",
      "11:13:54 11:28:54",
      "11:28:54 11:43:54",
      "11:43:54 11:58:54",
    ]) {
      expect(await next(sweep)).toBe(window);
      note(sweep, window, { nowMs: 1_000 });
    }
    expect(await next(sweep, { nowMs: 121_000 })).toBe("11:43:54 11:58:54");
    note(sweep, "11:43:54 11:58:54", { nowMs: 121_000 });
    expect(await next(sweep, { nowMs: 449_999 })).toBe("11:43:54 11:58:54");
    note(sweep, "11:43:54 11:58:54", { nowMs: 300_000 });
    expect(await next(sweep, { nowMs: 450_000 })).toBe("10:58:54 11:13:54");
  });
  it("reads no further back than the history", async () => {
    const sweep = makeDelayedSweep(options);
    expect(await next(sweep, { historySince: at("11:50:00") })).toBe("11:50:00 11:58:54");
    const none = makeDelayedSweep(options);
    expect(await next(none, { historySince: at("11:59:00") })).toBeUndefined();
  });
  it("reads all of it in shorter windows, too", async () => {
    const sweep = makeDelayedSweep(options);
    await next(sweep);
    sweep.span.shorten({ since: at("11:43:54"), until: at("11:58:54") });
    const first = await next(sweep);
    expect(first).toBe("11:43:54 11:51:24");
    note(sweep, first!);
    const second = await next(sweep, { providerNow: at("12:00:09") });
    expect(second).toBe("11:51:24 11:58:54");
    note(sweep, second!);
    expect(await next(sweep, { nowMs: 60_000 })).toBeUndefined();
  });
});

describe("the backfill", () => {
  const makeSut = (covered: Window[] = []) =>
    makeBackfillSweep(options, async (within, limit) => gaps(within, covered).slice(0, limit));
  const history = { historySince: at("00:00:00") };

  it("reads the oldest gap first, and leaves the last quarter of an hour to the delayed sweep", async () => {
    expect(await next(makeSut(), history)).toBe("00:00:00 11:43:54");
    const covered = [
      { since: at("00:00:00"), until: at("05:00:00") },
      { since: at("06:00:00"), until: at("11:58:54") },
    ];
    expect(await next(makeSut(covered), { ...history, safeThrough: at("05:00:00") })).toBe(
      "05:00:00 06:00:00",
    );
    const whole = [{ since: at("00:00:00"), until: at("11:58:54") }];
    expect(await next(makeSut(whole), { ...history, safeThrough: at("11:58:54") })).toBeUndefined();
  });
  it("reads a day at a time, or more where there are few orders", async () => {
    const sweep = makeSut();
    const long = { historySince: at("00:00:00") - 10n * 86_400n * 10n ** 9n };
    const span = async () => {
      const window = (await sweep.next(view(long), TERM))!;
      return Number(window.until - window.since) / 86_400e9;
    };
    expect(await span()).toBe(1);
    note(sweep, "00:00:00 01:00:00", { requests: 2 });
    expect(await span()).toBe(1);
    note(sweep, "00:00:00 01:00:00");
    expect(await span()).toBe(2);
  });
  it("skips a gap that could not be proved for ten minutes, and reads the others meanwhile", async () => {
    const covered = [{ since: at("02:00:00"), until: at("03:00:00") }];
    const sweep = makeSut(covered);
    expect(await next(sweep, history)).toBe("00:00:00 02:00:00");
    note(sweep, "00:00:00 02:00:00", { proved: false, nowMs: 5 });
    expect(await next(sweep, { ...history, nowMs: 600_004 })).toBe("03:00:00 11:43:54");
    expect(await next(sweep, { ...history, nowMs: 600_005 })).toBe("00:00:00 02:00:00");
  });
});
