import { expect, it } from "vitest";
import { CONDITIONS, type Facts } from "../../../src/health/conditions/conditions.ts";
import type { Standing } from "../../../src/health/conditions/standing.ts";
import { judge } from "../../../src/health/judge.ts";
import { ago, LOOKED_AT, makeFacts, makeSourceFacts } from "../../support/pages/facts.ts";

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

it("tells what to do about a server that does not commit, not only where to look", () => {
  const unwritable = { cause: "It is full.", remedy: "Free space." };
  expect(judge(makeFacts({}, { unwritable })).holding).toMatchObject([unwritable]);
});

it("tells a wrong clock from a wrong secret", () => {
  const say = (source: Partial<Standing>) =>
    judge(makeFacts(source)).holding.map(({ cause, remedy }) => `${cause} ${remedy}`);
  expect(say(deaf)).toEqual([expect.stringMatching(/: the secret or WEBHOOK_SCHEME is wrong\. Copy/)]);
  expect(say({ ...deaf, wrongTimesSinceLastEvent: 2 })).toEqual([expect.stringContaining("the secret or")]);
  expect(say({ ...deaf, wrongTimesSinceLastEvent: 3 })).toEqual([
    expect.stringMatching(/\(3 calls\): their signing times are too far from .* clock\. Run a time service/),
  ]);
  const refused = { wrongSignatures: 21, firstWrongSignatureAt: ago(60) };
  expect(say(refused)).toEqual([
    expect.stringContaining("21 webhook calls within 10 minutes had a wrong signature."),
  ]);
  expect(say({ ...refused, wrongTimes: 1 })).toEqual([
    expect.stringContaining("21 webhook calls within 10 minutes had a wrong signature or signing time."),
  ]);
  expect(say({ ...refused, wrongTimes: 21 })).toEqual([
    expect.stringMatching(/had a signing time too far from the web process's clock\. Run a time service/),
  ]);
});

it("says of a rate limit which policy is waited for, and until when", () => {
  const lastError = 'the provider allows no request of "orders.read" before 2026-11-24T12:00:00Z';
  const [found] = judge(makeFacts({ ...failing("rate_limited", 60), lastError })).holding;
  expect(found?.cause).toMatch(/429 for live.*\. Last: .*"orders\.read" before 2026-11-24T12:00:00Z\.$/);
});

it("notices at once that the queue is away, and reports it after a minute, which a restart does not take", () => {
  const queues = [{ name: "apply", problems: [{ problem: "x", fix: "y" }], newestDeadAt: null }];
  const firstSeen = new Map<string, bigint>();
  const look = (second: number) => {
    const { holding, beginning } = judge(makeFacts({}, { queues, now: ago(-second) }), firstSeen);
    return [holding, beginning].map((list) => list.map(({ condition }) => condition.name));
  };
  expect(look(0)).toEqual([[], ["OrderMirrorQueueAway"]]);
  expect(look(59)).toEqual([[], ["OrderMirrorQueueAway"]]);
  expect(look(60)).toEqual([["OrderMirrorQueueAway"], []]);
});

it("shows the refused calls as one condition, and keeps that events have stopped, which a stranger's calls could hide", () => {
  const many = { wrongSignatures: 21, firstWrongSignatureAt: ago(60) };
  const stopped = { lostSinceLastEvent: 3, firstLostSinceLastEventAt: ago(120) };
  const refused = { ...deaf, ...many, ...stopped };
  const conditions = ["OrderMirrorWebhooksRefused", "OrderMirrorEventsStopped"];
  expect(firing(refused)).toEqual(conditions);
  expect(firing({ ...refused, wrongTimes: 21, wrongTimesSinceLastEvent: 3 })).toEqual(conditions);
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

const AWAY = {
  name: "apply",
  problems: [{ problem: "Redis is away.", fix: "Start it." }],
  newestDeadAt: null,
};

it("reports only the pause while polling is paused", () => {
  const old = { polledThrough: ago(9_000), safeThrough: ago(9_100), lastCycleEndedAt: ago(9_000) };
  const stopped = { ...old, ...leaderless(9_000), ...failing("away", 9_000) };
  expect(firing({ ...stopped, pausedAt: ago(60) })).toEqual(["OrderMirrorPaused"]);
});

it("blames a list that is later than the margin for events that reads contradict, and advises the largest delay of the day", () => {
  const refuted = { refutedClaims: 15, firstRefutedClaimAt: ago(60), refutedReference: "DO-1" };
  const late = { breaches: 26, lastBreachAt: ago(60), lateSeconds: 346, marginSeconds: 30 };
  const { holding } = judge(makeFacts({ ...refuted, ...late }));
  expect(holding.map(({ condition }) => condition.name)).toEqual(["OrderMirrorProofTakenBack"]);
  expect(holding[0]?.remedy).toContain("set POLL_MARGIN_SECONDS=540");
  expect(firing({ ...refuted, ...late, lateSeconds: 20 })).toContain("OrderMirrorClaimsRefuted");
});

it("finds no lost events for a source without webhooks", () => {
  const past = { lostSinceLastEvent: 9, firstLostSinceLastEventAt: ago(9), ...lost(9) };
  expect(firing({ ...past, configured: false })).toEqual([]);
});

it("lists critical conditions first, and the newest first among those", () => {
  const both = {
    ...leaderless(500),
    pending: 1,
    oldestPendingAt: ago(900),
    quarantined: 1,
    oldestQuarantinedAt: ago(9_000),
  };
  expect(firing(both)).toEqual(["OrderMirrorNoLeader", "OrderMirrorEventsWait", "OrderMirrorQuarantine"]);
});

it("judges each source separately", () => {
  const sources = [makeSourceFacts(), makeSourceFacts({ sourceId: "test", pausedAt: ago(5) })];
  const { holding } = judge(makeFacts({}, { sources }));
  expect(holding.map(({ subject }) => subject)).toEqual(["test"]);
});

it("reports what has no known start at once to a single look; a watcher dates it from its first look, and again after it was over", () => {
  const seen = new Map<string, bigint>();
  const at = (seconds: number, queues: Facts["queues"]) =>
    judge(makeFacts({}, { now: ago(seconds), queues }), seen).holding.map(({ since }) => since);
  expect(firing({}, { queues: [AWAY] })).toEqual(["OrderMirrorQueueAway"]);
  expect(at(500, [AWAY])).toEqual([]);
  expect(at(441, [AWAY])).toEqual([]);
  expect(at(440, [AWAY])).toEqual([ago(500)]);
  expect(at(370, [])).toEqual([]);
  expect(at(200, [AWAY])).toEqual([]);
});

it("lists the conditions that it cannot judge", () => {
  const { unjudged } = judge(makeFacts({}, { queues: null }));
  expect(unjudged).toEqual(["OrderMirrorQueueAway", "OrderMirrorDeadJobs"]);
});

it("has a unique name for each condition", () => {
  expect(new Set(CONDITIONS.map(({ name }) => name)).size).toBe(CONDITIONS.length);
});
