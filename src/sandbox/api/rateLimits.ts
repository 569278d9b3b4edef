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
  readonly resetMs: number;
  readonly retryMs: number;
}

interface Counter {
  readonly take: (nowMs: number) => Count;
}

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
  const counters = new Map<string, Counter>();
  const counterOf = (account: string, policy: Policy) => {
    const key = `${policy} ${account}`;
    const known = counters.get(key);
    if (known) return known;
    const quota = POLICY_QUOTAS[policy];
    const made = kind === "fixed" ? makeFixedWindow(quota) : makeSlidingWindow(quota);
    counters.set(key, made);
    return made;
  };
  return {
    /** Counts one request of `account` against all `policies`. */
    take: (account: string, policies: readonly Policy[]): Allowance => {
      const now = nowMs();
      const counts = policies.map((policy) => ({
        policy,
        ...(enforced ? counterOf(account, policy).take(now) : untouched(policy)),
      }));
      const slowest = counts
        .filter((count) => count.exceeded)
        .reduce<(typeof counts)[number] | undefined>(
          (worst, count) => (worst && worst.retryMs >= count.retryMs ? worst : count),
          undefined,
        );
      return {
        headers: writeHeaders(counts),
        refusal: slowest && { policy: slowest.policy, retryAfterSeconds: seconds(slowest.retryMs) },
      };
    },
    reset: () => counters.clear(),
  };
}

/** For requests without an organization, which have no counter. */
export function untouchedHeaders(policies: readonly Policy[]): Allowance["headers"] {
  return writeHeaders(policies.map((policy) => ({ policy, ...untouched(policy) })));
}

function untouched(policy: Policy): Count {
  return { exceeded: false, remaining: POLICY_QUOTAS[policy], resetMs: WINDOW_MS, retryMs: 0 };
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

function makeFixedWindow(quota: number): Counter {
  let opensMs = Number.NEGATIVE_INFINITY;
  let used = 0;
  let charged = 0;
  let refused = false;
  const openWindow = (now: number) => {
    const endsMs = opensMs + WINDOW_MS;
    // Only the very next window is charged: a client that waits longer than asked starts with a full one.
    const pays = charged > 0 && now < endsMs + WINDOW_MS;
    used = pays ? charged : 0;
    opensMs = pays ? endsMs : now;
    charged = 0;
    refused = false;
  };
  return {
    take: (now) => {
      if (now >= opensMs + WINDOW_MS) openWindow(now);
      const leftMs = opensMs + WINDOW_MS - now;
      if (used < quota) {
        used += 1;
        return { exceeded: false, remaining: quota - used, resetMs: leftMs, retryMs: 0 };
      }
      if (refused) charged = Math.min(charged + 1, quota - 1);
      refused = true;
      return { exceeded: true, remaining: 0, resetMs: leftMs, retryMs: leftMs };
    },
  };
}

function makeSlidingWindow(quota: number): Counter {
  let times: number[] = [];
  let refusedUntilMs = Number.NEGATIVE_INFINITY;
  return {
    take: (now) => {
      times = times.filter((time) => time > now - WINDOW_MS);
      const untilFree = (taken: number) => (times[taken - quota] ?? now) + WINDOW_MS - now;
      if (times.length < quota) {
        times.push(now);
        return { exceeded: false, remaining: quota - times.length, resetMs: WINDOW_MS, retryMs: 0 };
      }
      // Beyond two windows' worth, a charge would only extend the wait indefinitely.
      if (now < refusedUntilMs && times.length < 2 * quota - 1) times.push(now);
      const retryMs = untilFree(times.length);
      refusedUntilMs = now + retryMs;
      return { exceeded: true, remaining: 0, resetMs: retryMs, retryMs };
    },
  };
}

/** Rounded up: a client that waits exactly this long must not be early. */
function seconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1_000));
}
