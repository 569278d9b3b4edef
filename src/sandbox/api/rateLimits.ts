/** The spec's policies ("Limits"): requests per window of WINDOW_SECONDS, per organization and mode. */
export const POLICY_QUOTAS = { sustained: 200, geocoding: 100, "order-list": 20 } as const;
export type Policy = keyof typeof POLICY_QUOTAS;
/** @internal */
export const WINDOW_SECONDS = 10;
const WINDOW_MS = WINDOW_SECONDS * 1_000;

/** Assumed: `fixed` windows that open with the first request; `sliding` counts the last ten seconds. */
export type WindowKind = "fixed" | "sliding";

export interface Allowance {
  /** Values of the headers RateLimit-Policy and RateLimit. */
  readonly headers: { readonly "RateLimit-Policy": string; readonly RateLimit: string };
  /** The policy that refuses this request, and the whole seconds until it allows the next one. */
  readonly refusal: { readonly policy: Policy; readonly retryAfterSeconds: number } | undefined;
}

interface Count {
  readonly exceeded: boolean;
  readonly remaining: number;
  /** Time until the next request is allowed, for one that exceeds the quota. */
  readonly resetMs: number;
}

/** Counts one request. */
type Window = (nowMs: number) => Count;

export type RateLimiter = ReturnType<typeof makeRateLimiter>;

/**
 * Makes the limiter of one sandbox. `nowMs` is the provider's clock. `enforced: false` counts nothing and shows full
 * quotas, because a client that obeys the headers would otherwise wait.
 *
 * "A request sent earlier consumes capacity it does not have" (spec, "Limits"). Assumed: the first request over a limit
 * is only refused; each later one before Retry-After has passed is refused and also uses one request of the next
 * window. At least one request per window is left, so Retry-After stays true.
 */
export function makeRateLimiter(options: { nowMs: () => number; enforced: boolean; kind: WindowKind }) {
  const { nowMs, enforced, kind } = options;
  const make = kind === "fixed" ? makeFixedWindow : makeSlidingWindow;
  const windows = new Map<string, Window>();
  const count = (account: string, policy: Policy): Count => {
    if (!enforced) return untouched(policy);
    const key = `${policy} ${account}`;
    const window = windows.get(key) ?? make(POLICY_QUOTAS[policy]);
    windows.set(key, window);
    return window(nowMs());
  };
  return {
    /** Counts one request of `account` against all `policies`. */
    take: (account: string, policies: readonly Policy[]): Allowance => {
      const counts = policies.map((policy) => ({ policy, ...count(account, policy) }));
      const exceeded = counts.filter((each) => each.exceeded);
      const [slowest] = exceeded.toSorted((left, right) => right.resetMs - left.resetMs);
      return {
        headers: writeHeaders(counts),
        refusal: slowest && { policy: slowest.policy, retryAfterSeconds: seconds(slowest.resetMs) },
      };
    },
  };
}

/** Writes the headers for requests without an organization, which have no counter. */
export function untouchedHeaders(policies: readonly Policy[]): Allowance["headers"] {
  return writeHeaders(policies.map((policy) => ({ policy, ...untouched(policy) })));
}

function untouched(policy: Policy): Count {
  return { exceeded: false, remaining: POLICY_QUOTAS[policy], resetMs: WINDOW_MS };
}

function writeHeaders(
  counts: readonly { policy: Policy; remaining: number; resetMs: number }[],
): Allowance["headers"] {
  return {
    "RateLimit-Policy": counts
      .map(({ policy }) => `"${policy}";q=${POLICY_QUOTAS[policy]};w=${WINDOW_SECONDS}`)
      .join(", "),
    RateLimit: counts
      .map(({ policy, remaining, resetMs }) => `"${policy}";r=${remaining};t=${seconds(resetMs)}`)
      .join(", "),
  };
}

function makeFixedWindow(quota: number): Window {
  let opensMs = Number.NEGATIVE_INFINITY;
  let used = 0;
  let charged = 0;
  let refused = false;
  const open = (now: number) => {
    const endsMs = opensMs + WINDOW_MS;
    // Only the very next window is charged: a client that waits longer than asked starts with a full one.
    const pays = charged > 0 && now < endsMs + WINDOW_MS;
    used = pays ? charged : 0;
    opensMs = pays ? endsMs : now;
    charged = 0;
    refused = false;
  };
  return (now) => {
    if (now >= opensMs + WINDOW_MS) open(now);
    const resetMs = opensMs + WINDOW_MS - now;
    if (used < quota) {
      used += 1;
      return { exceeded: false, remaining: quota - used, resetMs };
    }
    if (refused) charged = Math.min(charged + 1, quota - 1);
    refused = true;
    return { exceeded: true, remaining: 0, resetMs };
  };
}

function makeSlidingWindow(quota: number): Window {
  let times: number[] = [];
  let refusedUntilMs = Number.NEGATIVE_INFINITY;
  return (now) => {
    times = times.filter((time) => time > now - WINDOW_MS);
    if (times.length < quota) {
      times.push(now);
      return { exceeded: false, remaining: quota - times.length, resetMs: WINDOW_MS };
    }
    // Beyond two windows' worth, a charge would only extend the wait indefinitely.
    if (now < refusedUntilMs && times.length < 2 * quota - 1) times.push(now);
    refusedUntilMs = (times[times.length - quota] ?? now) + WINDOW_MS;
    return { exceeded: true, remaining: 0, resetMs: refusedUntilMs - now };
  };
}

/** Rounds up to whole seconds: a client that waits exactly this long must not be early. */
function seconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1_000));
}
