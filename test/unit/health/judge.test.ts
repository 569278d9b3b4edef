import { expect, it } from "vitest";
import type { Facts } from "../../../src/health/conditions/conditions.ts";
import type { OutgoingEndpoint } from "../../../src/health/conditions/endpoints.sql.ts";
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
const deaf = { refusedSinceLastEvent: 3, foundSinceRefused: 1, firstRefusedAt: ago(120) };

type Pair<Facts> = readonly [name: string, fine: Partial<Facts>, wrong: Partial<Facts>];
/** From so many seconds on it is wrong; and from a count on. */
const from = (
  name: string,
  since: keyof Standing,
  seconds: number,
  rest: Partial<Standing> = {},
): Pair<Standing> => [name, { ...rest, [since]: ago(seconds - 1) }, { ...rest, [since]: ago(seconds) }];
const many = (
  name: string,
  counted: keyof Standing,
  count: number,
  rest: Partial<Standing> = {},
): Pair<Standing> => [name, { ...rest, [counted]: count - 1 }, { ...rest, [counted]: count }];
const [AWAY, SLOW] = (["away", "slow"] as const).map((trouble) => failing(trouble, 9_000));
const UNPROVED = { safeThrough: ago(90_000) };
const SILENT = { firstLostSinceLastEventAt: ago(9) };

// The first of each pair is still fine.
it.each<Pair<Standing>>([
  from("OrderMirrorNoLeader", "leaderlessSince", 120, { leader: null }),
  from("OrderMirrorNotPolled", "lastCycleEndedAt", 340),
  from("OrderMirrorNotPolled", "lastCycleEndedAt", 3_910, { intervalSeconds: 3_600 }),
  from("OrderMirrorNotPolled", "resumedAt", 340, { lastCycleEndedAt: ago(9_000) }),
  ["OrderMirrorPaused", { pausedAt: null }, { pausedAt: ago(0) }],
  from("OrderMirrorKeyRefused", "failingSince", 60, failing("key_refused", 0)),
  from("OrderMirrorProviderAway", "failingSince", 600, AWAY),
  from("OrderMirrorProviderAway", "failingSince", 600, SLOW),
  from("OrderMirrorProviderAway", "resumedAt", 600, AWAY),
  from("OrderMirrorRateLimited", "failingSince", 60, failing("rate_limited", 0)),
  many("OrderMirrorRateLimited", "rateRefusals", 5, { firstRateRefusalAt: ago(60) }),
  many("OrderMirrorNoSecret", "withoutSecret", 3, { configured: false, firstWithoutSecretAt: ago(120) }),
  from("OrderMirrorPollFailing", "failingSince", 600, failing("other", 0)),
  from("OrderMirrorWindowUnserved", "unservedAt", 600),
  ["OrderMirrorClocksDisagree", {}, { clockErrorSeconds: 86_400, clockWrongSince: ago(0) }],
  from("OrderMirrorIncomplete", "safeThrough", 4_090),
  from("OrderMirrorIncomplete", "createdAt", 3_600, UNPROVED),
  from("OrderMirrorIncomplete", "resumedAt", 3_600, UNPROVED),
  ["OrderMirrorProofTakenBack", { lastBreachAt: ago(86_401) }, { lastBreachAt: ago(86_400) }],
  from("OrderMirrorExceptions", "oldestExceptionAt", 1_800, { exceptions: 1 }),
  many("OrderMirrorClaimsRefuted", "refutedClaims", 3, {
    firstRefutedClaimAt: ago(60),
    refutedReference: "DO-1",
  }),
  from("OrderMirrorGaps", "gapFoundAt", 900, gap(0)),
  from("OrderMirrorListIncomplete", "listDoubtedAt", 300),
  many("OrderMirrorOrdersGone", "goneOrders", 1, { firstGoneAt: ago(0) }),
  from("OrderMirrorEventsWait", "oldestPendingAt", 360, { pending: 1 }),
  many("OrderMirrorQuarantine", "quarantined", 1, { oldestQuarantinedAt: ago(0) }),
  many("OrderMirrorWebhooksRefused", "refusedSinceLastEvent", 3, deaf),
  many("OrderMirrorWebhooksRefused", "foundSinceRefused", 1, deaf),
  many("OrderMirrorWebhooksRefused", "refusedSinceLastEvent", 3, {
    firstRefusedAt: ago(120),
    lastEventAt: null,
  }),
  many("OrderMirrorEventsNeverCame", "lostSinceLastEvent", 3, { ...SILENT, lastEventAt: null }),
  many("OrderMirrorBadSignatures", "wrongSignatures", 21, { firstWrongSignatureAt: ago(60) }),
  from("OrderMirrorEventsRefused", "firstNotStoredAt", 120, { notStored: 1 }),
  many("OrderMirrorEventsStopped", "lostSinceLastEvent", 3, SILENT),
  many("OrderMirrorEventsLost", "lost", 2, { firstLostAt: ago(1_000), announced: 99 }),
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

const IDLE = {
  endpointId: "erp",
  sourceIds: ["live"],
  pending: 0,
  dead: 0,
  oldestPendingAt: null,
  oldestDeadAt: null,
  newestDeliveredAt: null,
  failuresInRow: 0,
  pausedAt: null,
  resumedAt: null,
  nextAttemptAt: null,
  late: false,
  unlistedSince: null,
  disputed: false,
};
const at = (seconds: number) => LOOKED_AT - seconds;
/** An endpoint of each pair, or none. */
const endpoint = (
  name: string,
  fine: Partial<OutgoingEndpoint>,
  wrong: Partial<OutgoingEndpoint>,
): Pair<Facts> => [name, { endpoints: [{ ...IDLE, ...fine }] }, { endpoints: [{ ...IDLE, ...wrong }] }];
const LATE = { pending: 2, oldestPendingAt: at(600) };
const FAILING = { ...LATE, failuresInRow: 3 };
const queue = { name: "apply", problems: [], newestDeadAt: null };
const away = [{ ...queue, problems: [{ problem: "x", fix: "y" }] }];

it.each<Pair<Facts>>([
  ["OrderMirrorNotWritable", {}, { unwritable: { cause: "It is full.", remedy: "Free space." } }],
  ["OrderMirrorQueueAway", { queues: [queue] }, { queues: away }],
  [
    "OrderMirrorDeadJobs",
    { queues: [{ ...queue, newestDeadAt: ago(901) }] },
    { queues: [{ ...queue, newestDeadAt: ago(900) }] },
  ],
  endpoint("OrderMirrorOutgoingFailing", { ...FAILING, oldestPendingAt: at(599) }, FAILING),
  endpoint("OrderMirrorOutgoingGivenUp", {}, { dead: 1, oldestDeadAt: at(5) }),
  endpoint("OrderMirrorOutgoingLate", { ...LATE, oldestPendingAt: at(599) }, LATE),
  endpoint(
    "OrderMirrorOutgoingLate",
    { ...LATE, oldestPendingAt: at(9_000), resumedAt: at(599) },
    { ...LATE, oldestPendingAt: at(9_000), resumedAt: at(600) },
  ),
  // Nothing is planned, or no worker lists it: whatever failed before.
  endpoint("OrderMirrorOutgoingLate", {}, { ...FAILING, pending: 0 }),
  endpoint("OrderMirrorOutgoingLate", { unlistedSince: at(700) }, { ...FAILING, unlistedSince: at(700) }),
  // One cause is one problem: not also failing, late or not listed.
  endpoint("OrderMirrorOutgoingPaused", {}, { ...FAILING, unlistedSince: at(86_400), pausedAt: at(5) }),
  endpoint("OrderMirrorOutgoingNotListed", { unlistedSince: at(86_399) }, { unlistedSince: at(86_400) }),
  endpoint("OrderMirrorOutgoingDisputed", {}, { disputed: true }),
])("tells what is fine from what is not: %s", (name, fine, wrong) => {
  expect(firing({}, fine)).toEqual([]);
  expect(firing({}, wrong)).toEqual([name]);
});

it.each([
  [1, "Webhooks to erp fail: 1 message waits after 1 failed attempt.", "1 webhook to erp was given up."],
  [2, "Webhooks to erp fail: 2 messages wait after 2 failed attempts.", "2 webhooks to erp were given up."],
])("counts %i of an endpoint as such", (count, ...sentences) => {
  const failing = { ...LATE, pending: count, failuresInRow: count, dead: count, oldestDeadAt: at(5) };
  const { holding } = judge(makeFacts({}, { endpoints: [{ ...IDLE, ...failing }] }));
  expect(holding.map(({ cause }) => cause).toSorted()).toEqual(sentences.toSorted());
});

it("reports only the pause while polling is paused", () => {
  const old = { polledThrough: ago(9_000), safeThrough: ago(9_100), lastCycleEndedAt: ago(9_000) };
  const stopped = { ...old, leader: null, leaderlessSince: ago(9_000), ...failing("away", 9_000) };
  expect(firing({ ...stopped, pausedAt: ago(60) })).toEqual(["OrderMirrorPaused"]);
});

it("finds no lost events for a source without webhooks", () => {
  const past = { lostSinceLastEvent: 9, ...SILENT, lost: 9, firstLostAt: ago(1_000) };
  expect(firing({ ...past, configured: false })).toEqual([]);
});

it("reports what has no known start at once to a single look; a watcher notices it, and dates it from its first look, and again after it was over", () => {
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
