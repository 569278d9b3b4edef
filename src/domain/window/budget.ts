/**
 * Pure arithmetic of one rate policy (spec, "Limits"). Times are milliseconds of one monotonic clock.
 *
 * A request counts from its start until a full window after its *end*: the provider counts it at some instant in
 * between. So no sliding window of the provider contains more than `requestsMax`, however unevenly the network delays
 * requests.
 */

/** At most `requestsMax` in any `windowMs`, evenly spaced: `windowMs / requestsMax` apart, rounded up. */
export interface RateRule {
  readonly requestsMax: number;
  readonly windowMs: number;
}

interface RequestSpan {
  readonly id: number;
  readonly startedAtMs: number;
  /** Null while the request is under way. */
  readonly endedAtMs: number | null;
}

/** What the provider says is left until `resetsAtMs`, minus what was sent since that request. */
interface Claim {
  readonly requestId: number;
  readonly remaining: number;
  readonly resetsAtMs: number;
}

/** How much of a policy is used, and what the provider said about it. */
export interface PolicyUsage {
  /** Our own rule, the upper limit. */
  readonly rule: RateRule;
  /** Our share of every limit, 0 to 1. */
  readonly share: number;
  /** The provider's rule from its headers; relevant only if it is stricter. */
  readonly declared: RateRule | null;
  readonly spans: readonly RequestSpan[];
  readonly claim: Claim | null;
  /** Exclusive end of a refusal. */
  readonly blockedUntilMs: number;
}

/** Our share of a limit by default; the rest is for other users of the keys, and clock differences. */
export const SHARE_DEFAULT = 0.9;

/** Longer windows are not tracked request by request; the provider's remaining count is used anyway. */
const WINDOW_MAX_MS = 3_600_000;

/** Our share of a limit, 18 of 20 by default; never less than one request. */
export function takeShare({ requestsMax, windowMs }: RateRule, share = SHARE_DEFAULT): RateRule {
  return { requestsMax: Math.max(1, Math.floor(requestsMax * share)), windowMs };
}

/** The policy `rule`, which is already our share, without any use. */
export function unusedPolicy(rule: RateRule, share = SHARE_DEFAULT): PolicyUsage {
  return { rule, share, declared: null, spans: [], claim: null, blockedUntilMs: Number.NEGATIVE_INFINITY };
}

/** When the next request may start, `nowMs` at the earliest; Infinity if that depends on one under way. */
export function nextAllowedAt(usage: PolicyUsage, nowMs: number): number {
  const claimed = usage.claim !== null && usage.claim.remaining <= 0 ? usage.claim.resetsAtMs : nowMs;
  return Math.max(nowMs, usage.blockedUntilMs, claimed, ...rules(usage).map((rule) => freeAt(usage, rule)));
}

/** Records the start of a request; `id` must be greater than that of any earlier one. */
export function startRequest(usage: PolicyUsage, id: number, nowMs: number): PolicyUsage {
  const keptMs = Math.max(...rules(usage).map((rule) => rule.windowMs));
  const kept = usage.spans.filter(({ endedAtMs }) => endedAtMs === null || endedAtMs + keptMs > nowMs);
  const claim =
    usage.claim === null || usage.claim.resetsAtMs <= nowMs
      ? null
      : { ...usage.claim, remaining: usage.claim.remaining - 1 };
  return { ...usage, spans: [...kept, { id, startedAtMs: nowMs, endedAtMs: null }], claim };
}

/** Records that the answer has begun, or that none will arrive. */
export function endRequest(usage: PolicyUsage, id: number, nowMs: number): PolicyUsage {
  const spans = usage.spans.map((span) =>
    span.id === id && span.endedAtMs === null ? { ...span, endedAtMs: nowMs } : span,
  );
  return { ...usage, spans };
}

/**
 * The answer to request `requestId` says that `remaining` requests are left until `resetsAtMs`.
 *
 * Requests that the provider may not have counted by then are subtracted. An answer that arrives after that of a later
 * request is ignored.
 */
export function claimRemaining(
  usage: PolicyUsage,
  claim: { requestId: number; remaining: number; resetsAtMs: number },
): PolicyUsage {
  if (usage.claim !== null && usage.claim.requestId > claim.requestId) return usage;
  const uncounted = usage.spans.filter(
    ({ id, endedAtMs }) => id > claim.requestId || (endedAtMs === null && id !== claim.requestId),
  );
  return { ...usage, claim: { ...claim, remaining: claim.remaining - uncounted.length } };
}

/** The provider's headers state the policy's limit; our share of it is unchanged. */
export function declareRule(usage: PolicyUsage, limit: RateRule): PolicyUsage {
  const usable = limit.windowMs > 0 && limit.windowMs <= WINDOW_MAX_MS;
  return { ...usage, declared: usable ? takeShare(limit, usage.share) : null };
}

/** No request before `untilMs`; an earlier refusal that lasts longer stays in force. */
export function blockUntil(usage: PolicyUsage, untilMs: number): PolicyUsage {
  return { ...usage, blockedUntilMs: Math.max(usage.blockedUntilMs, untilMs) };
}

/** The requests that count against our own rule at `nowMs`. */
export function countUsed(usage: PolicyUsage, nowMs: number): number {
  return counted(usage, usage.rule, nowMs).length;
}

function rules({ rule, declared }: PolicyUsage): RateRule[] {
  return declared === null ? [rule] : [rule, declared];
}

/** When `rule` alone would allow the next request. */
function freeAt(usage: PolicyUsage, rule: RateRule): number {
  const last = usage.spans.at(-1);
  if (last === undefined) return Number.NEGATIVE_INFINITY;
  const spacedAt = last.startedAtMs + Math.ceil(rule.windowMs / rule.requestsMax);
  const expiries = usage.spans.map((span) => expiresAt(span, rule)).sort(compare);
  // With `requestsMax` or more counted, all but `requestsMax - 1` must have expired.
  const expiredAt = expiries[expiries.length - rule.requestsMax] ?? Number.NEGATIVE_INFINITY;
  return Math.max(spacedAt, expiredAt);
}

function counted(usage: PolicyUsage, rule: RateRule, nowMs: number): RequestSpan[] {
  return usage.spans.filter((span) => expiresAt(span, rule) > nowMs);
}

function expiresAt({ endedAtMs }: RequestSpan, rule: RateRule): number {
  return endedAtMs === null ? Number.POSITIVE_INFINITY : endedAtMs + rule.windowMs;
}

/** Not by subtraction: two requests under way are both at infinity. */
function compare(left: number, right: number): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}
