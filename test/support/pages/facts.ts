import type { Facts } from "../../../src/health/conditions/conditions.ts";
import type { Standing } from "../../../src/health/conditions/standing.ts";
import type { Delivery } from "../../../src/orders/orderStory.sql.ts";

/** When these facts were read, in seconds since 1970. */
export const LOOKED_AT = 1_763_632_830;

/** The instant that many seconds before the reading. */
export const ago = (seconds: number) => BigInt(Math.round((LOOKED_AT - seconds) * 1_000)) * 1_000_000n;

const DAY = 86_400;

/** A healthy source; `change` replaces some of its facts. */
export function makeSourceFacts(change: Partial<Standing> = {}): Standing {
  return {
    sourceId: "live",
    mode: "live",
    baseUrl: "http://127.0.0.1",
    configured: true,
    now: ago(0),
    createdAt: ago(30 * DAY),
    pausedAt: null,
    resumedAt: null,
    leader: "host:1",
    leaderlessSince: null,
    historySince: ago(30 * DAY),
    polledThrough: ago(6),
    safeThrough: ago(70),
    provedUntil: ago(70),
    lastCycleEndedAt: ago(10),
    failingSince: null,
    lastError: null,
    trouble: null,
    clockErrorSeconds: null,
    clockWrongSince: null,
    rateRefusals: 0,
    firstRateRefusalAt: null,
    gaps: 0,
    oldestGap: null,
    gapFoundAt: null,
    exceptions: 0,
    oldestExceptionAt: null,
    breaches: 0,
    lastBreachAt: null,
    lateSeconds: null,
    marginSeconds: 300,
    intervalSeconds: 30,
    unservedSince: null,
    unservedUntil: null,
    unservedAt: null,
    unservedError: null,
    listDoubtedAt: null,
    goneOrders: 0,
    firstGoneAt: null,
    pending: 0,
    oldestPendingAt: null,
    quarantined: 0,
    oldestQuarantinedAt: null,
    refetches: 0,
    lastEventAt: ago(30),
    hasOrders: true,
    lostEver: 0,
    announced: 400,
    late: 0,
    lost: 0,
    firstLostAt: null,
    lostSinceLastEvent: 0,
    firstLostSinceLastEventAt: null,
    announcedLately: 40,
    lateLately: 0,
    firstLateHour: null,
    refutedClaims: 0,
    firstRefutedClaimAt: null,
    refutedReference: null,
    refusedSinceLastEvent: 0,
    wrongTimesSinceLastEvent: 0,
    unsignedSinceLastEvent: 0,
    firstRefusedAt: null,
    foundSinceRefused: 0,
    wrongSignatures: 0,
    wrongTimes: 0,
    firstWrongSignatureAt: null,
    notStored: 0,
    firstNotStoredAt: null,
    withoutSecret: 0,
    firstWithoutSecretAt: null,
    ...change,
  };
}

/** Facts of a healthy mirror; `change` replaces some of them, `source` some of those of its only source. */
export function makeFacts(source: Partial<Standing> = {}, change: Partial<Facts> = {}): Facts {
  return {
    now: ago(0),
    sources: [makeSourceFacts(source)],
    endpoints: [],
    recorded: [],
    unwritable: null,
    queues: [{ name: "apply", problems: [], newestDeadAt: null }],
    ...change,
  };
}

/** An order that was cancelled a quarter of an hour ago, and read since. */
export const CANCELLED_DELIVERY: Delivery = {
  sourceId: "live",
  reference: "R1",
  externalOrderId: null,
  fleetName: null,
  branch: null,
  status: "cancelled",
  pickupTime: null,
  realPickupTime: null,
  deliveryTime: null,
  realDeliveryTime: null,
  updatedAt: ago(900),
  settled: true,
  revision: 1,
  observedAt: ago(600),
  goneAt: null,
  erasedAt: null,
  raw: "{}",
};
