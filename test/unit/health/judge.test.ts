import { expect, it } from "vitest";
import type { Facts } from "../../../src/health/conditions/conditions.ts";
import type { Standing } from "../../../src/health/conditions/standing.ts";
import { judge } from "../../../src/health/judge.ts";
import { ago, LOOKED_AT, makeFacts } from "../../support/pages/facts.ts";

const firing = (source: Partial<Standing>, change: Partial<Facts> = {}) =>
  judge(makeFacts(source, change)).holding.map(({ condition }) => condition.name);

it("finds nothing for a healthy mirror, a new source, and no configuration", () => {
  expect(firing({})).toEqual([]);
  const young = { createdAt: ago(60), safeThrough: null, lastCycleEndedAt: null, lastEventAt: null };
  expect(firing({ ...young, leader: null, leaderlessSince: ago(60), historySince: null })).toEqual([]);
  expect(firing({}, { sources: [] })).toEqual([]);
});

const failing = (trouble: Standing["trouble"], seconds: number) => ({
  trouble,
  lastError: "GET /v1/orders failed",
  failingSince: ago(seconds),
});
const gap = (seconds: number) => ({
  gaps: 1,
  oldestGap: { since: ago(9_000), until: ago(8_000) },
  gapFoundAt: ago(seconds),
});
const leaderless = (seconds: number) => ({ leader: null, leaderlessSince: ago(seconds) });
const lost = (count: number) => ({ lost: count, firstLostAt: ago(1_000), announced: 99 });
const called = { configured: false, firstWithoutSecretAt: ago(120) };
const hourly = (seconds: number) => ({ intervalSeconds: 3_600, lastCycleEndedAt: ago(seconds) });
const deaf = { refusedSinceLastEvent: 3, foundSinceRefused: 1, firstRefusedAt: ago(120) };

// The first of each pair is still fine.
it.each<[string, Partial<Standing>, Partial<Standing>]>([
  ["OrderMirrorNoLeader", leaderless(119), leaderless(120)],
  ["OrderMirrorNotPolled", { lastCycleEndedAt: ago(339) }, { lastCycleEndedAt: ago(340) }],
  ["OrderMirrorNotPolled", hourly(3_909), hourly(3_910)],
  [
    "OrderMirrorNotPolled",
    { lastCycleEndedAt: ago(9_000), resumedAt: ago(339) },
    { lastCycleEndedAt: ago(9_000), resumedAt: ago(340) },
  ],
  ["OrderMirrorPaused", { pausedAt: null }, { pausedAt: ago(0) }],
  ["OrderMirrorKeyRefused", failing("key_refused", 59), failing("key_refused", 60)],
  ["OrderMirrorProviderAway", failing("away", 599), failing("away", 600)],
  ["OrderMirrorProviderAway", failing("slow", 599), failing("slow", 600)],
  [
    "OrderMirrorProviderAway",
    { ...failing("away", 9_000), resumedAt: ago(599) },
    { ...failing("away", 9_000), resumedAt: ago(600) },
  ],
  ["OrderMirrorRateLimited", failing("rate_limited", 59), failing("rate_limited", 60)],
  [
    "OrderMirrorRateLimited",
    { rateRefusals: 4, firstRateRefusalAt: ago(60) },
    { rateRefusals: 5, firstRateRefusalAt: ago(60) },
  ],
  ["OrderMirrorNoSecret", { ...called, withoutSecret: 2 }, { ...called, withoutSecret: 3 }],
  ["OrderMirrorPollFailing", failing("other", 599), failing("other", 600)],
  [
    "OrderMirrorClocksDisagree",
    { clockErrorSeconds: null, clockWrongSince: null },
    { clockErrorSeconds: 86_400, clockWrongSince: ago(0) },
  ],
  ["OrderMirrorIncomplete", { safeThrough: ago(4_089) }, { safeThrough: ago(4_090) }],
  [
    "OrderMirrorIncomplete",
    { safeThrough: ago(90_000), createdAt: ago(3_599) },
    { safeThrough: ago(90_000), createdAt: ago(3_600) },
  ],
  [
    "OrderMirrorIncomplete",
    { safeThrough: ago(90_000), resumedAt: ago(3_599) },
    { safeThrough: ago(90_000), resumedAt: ago(3_600) },
  ],
  ["OrderMirrorProofTakenBack", { lastBreachAt: ago(86_401) }, { lastBreachAt: ago(86_400) }],
  [
    "OrderMirrorExceptions",
    { exceptions: 1, oldestExceptionAt: ago(1_799) },
    { exceptions: 1, oldestExceptionAt: ago(1_800) },
  ],
  [
    "OrderMirrorClaimsRefuted",
    { refutedClaims: 2, firstRefutedClaimAt: ago(60), refutedReference: "DO-1" },
    { refutedClaims: 3, firstRefutedClaimAt: ago(60), refutedReference: "DO-1" },
  ],
  ["OrderMirrorGaps", gap(899), gap(900)],
  ["OrderMirrorListIncomplete", { listDoubtedAt: ago(299) }, { listDoubtedAt: ago(300) }],
  ["OrderMirrorOrdersGone", { goneOrders: 0 }, { goneOrders: 1, firstGoneAt: ago(0) }],
  [
    "OrderMirrorEventsWait",
    { pending: 1, oldestPendingAt: ago(359) },
    { pending: 1, oldestPendingAt: ago(360) },
  ],
  ["OrderMirrorQuarantine", { quarantined: 0 }, { quarantined: 1, oldestQuarantinedAt: ago(0) }],
  ["OrderMirrorWebhooksRefused", { ...deaf, refusedSinceLastEvent: 2 }, deaf],
  ["OrderMirrorWebhooksRefused", { ...deaf, foundSinceRefused: 0 }, deaf],
  [
    "OrderMirrorWebhooksRefused",
    { refusedSinceLastEvent: 1, firstRefusedAt: ago(120), lastEventAt: null },
    { refusedSinceLastEvent: 3, firstRefusedAt: ago(120), lastEventAt: null },
  ],
  [
    "OrderMirrorEventsNeverCame",
    { lastEventAt: null, lostSinceLastEvent: 2, firstLostSinceLastEventAt: ago(9) },
    { lastEventAt: null, lostSinceLastEvent: 3, firstLostSinceLastEventAt: ago(9) },
  ],
  [
    "OrderMirrorBadSignatures",
    { wrongSignatures: 20, firstWrongSignatureAt: ago(60) },
    { wrongSignatures: 21, firstWrongSignatureAt: ago(60) },
  ],
  [
    "OrderMirrorEventsRefused",
    { notStored: 1, firstNotStoredAt: ago(119) },
    { notStored: 1, firstNotStoredAt: ago(120) },
  ],
  [
    "OrderMirrorEventsStopped",
    { lostSinceLastEvent: 2, firstLostSinceLastEventAt: ago(9) },
    { lostSinceLastEvent: 3, firstLostSinceLastEventAt: ago(9) },
  ],
  ["OrderMirrorEventsLost", lost(1), lost(2)],
  [
    "OrderMirrorEventsLate",
    { announcedLately: 50, lateLately: 5, firstLateHour: ago(99) },
    { announcedLately: 49, lateLately: 5, firstLateHour: ago(99) },
  ],
])("tells what is fine from what is not: %s", (name, fine, wrong) => {
  expect(firing(fine)).toEqual([]);
  expect(firing(wrong)).toEqual([name]);
});

const refused = { wrongSignatures: 21, firstWrongSignatureAt: ago(60) };
const refuted = { refutedClaims: 15, firstRefutedClaimAt: ago(60), refutedReference: "DO-1" };
const late = { breaches: 26, lastBreachAt: ago(60), lateSeconds: 346, marginSeconds: 30 };
const disagreeing = (seconds: number) => ({ clockErrorSeconds: seconds, clockWrongSince: ago(9) });

it.each<[string, Partial<Standing>, RegExp]>([
  ["a wrong secret", deaf, /\(3 calls\): the secret or WEBHOOK_SCHEME is wrong\. Copy/],
  ["a wrong secret, beside an old call", { ...deaf, wrongTimesSinceLastEvent: 2 }, /: the secret or/],
  [
    "a wrong clock",
    { ...deaf, wrongTimesSinceLastEvent: 3 },
    /\(3 calls\): their signing times are too far from .* clock\. Run a time service/,
  ],
  ["forged calls", refused, /21 webhook calls within 10 minutes had a wrong signature\. After a rotation/],
  ["forged and old calls", { ...refused, wrongTimes: 1 }, /had a wrong signature or signing time\. After/],
  [
    "old calls",
    { ...refused, wrongTimes: 21 },
    /had a signing time too far from the web process's clock\. Run a time service/,
  ],
  [
    "which policy is waited for, and until when",
    { ...failing("rate_limited", 60), lastError: 'no request of "orders.read" before 2026-11-24T12:00:00Z' },
    /429 for live.*\. Last: no request of "orders\.read" before 2026-11-24T12:00:00Z\. Find/,
  ],
  // Events that its reads contradict were genuine; the margin is for the largest delay of the day.
  [
    "a list that is later than the margin",
    { ...refuted, ...late },
    /^A change .* set POLL_MARGIN_SECONDS=540 /,
  ],
  ["a clock that is ahead", disagreeing(599.6), /clock of live is 600 s ahead of the database's;/],
  ["a clock that is behind", disagreeing(-7_200), /clock of live is 120 min behind the database's;/],
  ["a clock of another day", disagreeing(5 * 86_400), /clock of live is 5 days ahead of the database's;/],
  [
    "a gap, in whole seconds that hold all of it",
    { ...gap(900), gaps: 3, oldestGap: { since: ago(9_000) + 1n, until: ago(8_000) + 1n } },
    /between 2025-11-20T07:30:30Z and 2025-11-20T07:47:11Z and 2 more\. `order-mirror backfill --source live --from 2025-11-20T07:30:30Z --to 2025-11-20T07:47:11Z` reads/,
  ],
])("says what is wrong and what to do: %s", (_what, source, expected) => {
  const [found, ...others] = judge(makeFacts(source)).holding;
  expect(`${found?.cause} ${found?.remedy}`).toMatch(expected);
  expect(others).toEqual([]);
});

it("does not blame a list that is late, but within the margin, for events that reads contradict", () => {
  expect(firing({ ...refuted, ...late, lateSeconds: 20 })).toContain("OrderMirrorClaimsRefuted");
});

it("tells what to do about a server that does not commit, not only where to look", () => {
  const unwritable = { cause: "It is full.", remedy: "Free space." };
  expect(judge(makeFacts({}, { unwritable })).holding).toMatchObject([unwritable]);
});

it("shows the refused calls as one condition, and keeps that events have stopped, which a stranger's calls could hide", () => {
  const stopped = { lostSinceLastEvent: 3, firstLostSinceLastEventAt: ago(120) };
  const all = { ...deaf, ...refused, ...stopped };
  const conditions = ["OrderMirrorWebhooksRefused", "OrderMirrorEventsStopped"];
  expect(firing(all)).toEqual(conditions);
  expect(firing({ ...all, wrongTimes: 21, wrongTimesSinceLastEvent: 3 })).toEqual(conditions);
});

const endpoint = {
  endpointId: "erp",
  sourceIds: ["live"],
  pending: 2,
  dead: 0,
  oldestPendingAt: LOOKED_AT - 600,
  oldestDeadAt: null,
  newestDeliveredAt: null,
  failuresInRow: 3,
  pausedAt: null,
  resumedAt: null,
  nextAttemptAt: null,
  late: true,
  unlistedSince: null,
  disputed: false,
};
const IDLE = { ...endpoint, pending: 0, oldestPendingAt: null, failuresInRow: 0, late: false };
const LATE = { ...endpoint, failuresInRow: 0 };

const queue = { name: "apply", problems: [], newestDeadAt: null };

it.each<[string, Partial<Facts>, Partial<Facts>]>([
  [
    "OrderMirrorNotWritable",
    { unwritable: null },
    { unwritable: { cause: "It is full.", remedy: "Free space." } },
  ],
  [
    "OrderMirrorQueueAway",
    { queues: [queue] },
    { queues: [{ ...queue, problems: [{ problem: "x", fix: "y" }] }] },
  ],
  [
    "OrderMirrorDeadJobs",
    { queues: [{ ...queue, newestDeadAt: ago(901) }] },
    { queues: [{ ...queue, newestDeadAt: ago(900) }] },
  ],
  [
    "OrderMirrorOutgoingFailing",
    { endpoints: [{ ...endpoint, oldestPendingAt: LOOKED_AT - 599 }] },
    { endpoints: [endpoint] },
  ],
  ["OrderMirrorOutgoingFailing", { endpoints: [IDLE] }, { endpoints: [endpoint] }],
  [
    "OrderMirrorOutgoingGivenUp",
    { endpoints: [] },
    { endpoints: [{ ...IDLE, dead: 1, oldestDeadAt: LOOKED_AT - 5 }] },
  ],
  [
    "OrderMirrorOutgoingLate",
    { endpoints: [{ ...LATE, oldestPendingAt: LOOKED_AT - 599 }] },
    { endpoints: [LATE] },
  ],
  [
    "OrderMirrorOutgoingLate",
    { endpoints: [{ ...LATE, oldestPendingAt: LOOKED_AT - 9_000, resumedAt: LOOKED_AT - 599 }] },
    { endpoints: [{ ...LATE, oldestPendingAt: LOOKED_AT - 9_000, resumedAt: LOOKED_AT - 600 }] },
  ],
  // Nothing is planned, or no worker lists it: whatever failed before.
  ["OrderMirrorOutgoingLate", { endpoints: [IDLE] }, { endpoints: [{ ...endpoint, pending: 0 }] }],
  [
    "OrderMirrorOutgoingLate",
    { endpoints: [{ ...IDLE, unlistedSince: LOOKED_AT - 700 }] },
    { endpoints: [{ ...endpoint, unlistedSince: LOOKED_AT - 700 }] },
  ],
  // One cause is one problem: not also failing, late or not listed.
  [
    "OrderMirrorOutgoingPaused",
    { endpoints: [IDLE] },
    { endpoints: [{ ...endpoint, unlistedSince: LOOKED_AT - 86_400, pausedAt: LOOKED_AT - 5 }] },
  ],
  [
    "OrderMirrorOutgoingNotListed",
    { endpoints: [{ ...IDLE, unlistedSince: LOOKED_AT - 86_399 }] },
    { endpoints: [{ ...IDLE, unlistedSince: LOOKED_AT - 86_400 }] },
  ],
  ["OrderMirrorOutgoingDisputed", { endpoints: [IDLE] }, { endpoints: [{ ...IDLE, disputed: true }] }],
])("tells what is fine from what is not: %s", (name, fine, wrong) => {
  expect(firing({}, fine)).toEqual([]);
  expect(firing({}, wrong)).toEqual([name]);
});

it("reports only the pause while polling is paused", () => {
  const old = { polledThrough: ago(9_000), safeThrough: ago(9_100), lastCycleEndedAt: ago(9_000) };
  const stopped = { ...old, ...leaderless(9_000), ...failing("away", 9_000) };
  expect(firing({ ...stopped, pausedAt: ago(60) })).toEqual(["OrderMirrorPaused"]);
});

it("finds no lost events for a source without webhooks", () => {
  const past = { lostSinceLastEvent: 9, firstLostSinceLastEventAt: ago(9), ...lost(9) };
  expect(firing({ ...past, configured: false })).toEqual([]);
});

it("reports what has no known start at once to a single look; a watcher notices it, and dates it from its first look, and again after it was over", () => {
  const away = [{ ...queue, problems: [{ problem: "x", fix: "y" }] }];
  expect(firing({}, { queues: away })).toEqual(["OrderMirrorQueueAway"]);
  const seen = new Map<string, bigint>();
  const look = (second: number, queues: Facts["queues"]) => {
    const { holding, beginning } = judge(makeFacts({}, { queues, now: ago(-second) }), seen);
    return [holding, beginning].map((list) => list.map(({ since }) => since));
  };
  expect(look(-200, away)).toEqual([[], [ago(200)]]);
  expect(look(-141, away)).toEqual([[], [ago(200)]]);
  expect(look(-140, away)).toEqual([[ago(200)], []]);
  expect(look(-130, [queue])).toEqual([[], []]);
  expect(look(0, away)).toEqual([[], [ago(0)]]);
});

it("lists the conditions that it cannot judge", () => {
  const { unjudged } = judge(makeFacts({}, { queues: null }));
  expect(unjudged).toEqual(["OrderMirrorQueueAway", "OrderMirrorDeadJobs"]);
});
