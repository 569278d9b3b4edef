import PQueue from "p-queue";
import { addSeconds, formatInstant } from "../domain/order/instant.ts";
import { PRIORITIES, type Priority } from "../domain/source/orderSource.ts";
import { SHARE_DEFAULT, takeShare, type RateRule } from "../domain/window/rate.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { ProviderError } from "./errors.ts";
import type { RateAnswer, RemainingEntry } from "./rateHeaders.ts";

/*
 * Keeps the requests of this process within the provider's rates (spec, "Limits"): no 429 by us, and no request before
 * the end of Retry-After.
 *
 * Each policy has a lane of its own: a queue by priority with one request under way, one of high rate with a few. A place
 * in the lane is free again a fixed delay after the answer. The provider counts a request at some instant before its
 * answer, so it counts those of a place at least that delay apart, however slow the answers are. As `sustained` counts
 * all requests, each lane has a fixed share of it: no lane needs to know what another does, and neither do two processes.
 * What the provider refuses, or says to be used up, blocks all lanes of that policy until the time that it names. Start
 * reading at makeBudget.
 */

/** Policies of the spec, "Limits". */
const POLICIES = ["sustained", "order-list", "geocoding"] as const;
export type PolicyName = (typeof POLICIES)[number];

/** The limits of the spec, per organization and mode. */
export const SPEC_LIMITS: Readonly<Record<PolicyName, RateRule>> = {
  sustained: { requestsMax: 200, windowMs: 10_000 },
  "order-list": { requestsMax: 20, windowMs: 10_000 },
  geocoding: { requestsMax: 100, windowMs: 10_000 },
};

/**
 * How the lanes share what `sustained` allows. Poller and web are two processes with a budget each, and the only lane that
 * both use is `sustained`: with it counted twice, the sum is 1.
 */
const SHARES: Readonly<Record<PolicyName, number>> = { "order-list": 0.1, geocoding: 0.4, sustained: 0.25 };

/*
 * A slow answer holds up one place, not a lane with several. Places may be counted at the same instant, so n of them can
 * exceed a lane's rate by n - 1 requests: with one for each ten requests per 10 s that is within our headroom.
 */
const PLACES_MAX = 12;
const PLACE_INTERVAL_MS = 1_000;

/** A declared limit with a longer window has no effect on the spacing; what it says to be used up has. */
const WINDOW_MAX_MS = 3_600_000;
/** A block that lasts longer is the caller's to wait for: nobody should hang here silently. */
const BLOCK_WAIT_MAX_MS = 30_000;

interface Turn {
  /** The narrowest policy of the endpoint; `sustained` applies to every request and is implied. */
  readonly policy: PolicyName;
  readonly priority: Priority;
  /** Abandons the wait, but not a request under way. */
  readonly signal?: AbortSignal | undefined;
}

/** What an answer says about rates; `refusedForMs` is the delay that a 429 asks for, null for any other answer. */
export interface RateLesson extends RateAnswer {
  readonly refusedForMs: number | null;
}

/** Learns from an answer. Returns the policies that a 429 refers to, none for any other answer. */
export type Learn = (lesson: RateLesson) => readonly PolicyName[];

/** Keeps all requests of this process for one organization and mode within the provider's rates. */
export interface Budget {
  /**
   * Sends a request when it is its turn, and settles as `send` does. Rejects with the signal's reason if that is aborted
   * first, and with a ProviderError that names the time if the provider allows no request for longer than 30 s.
   */
  run<Result>(turn: Turn, send: (learn: Learn) => Promise<Result>): Promise<Result>;
}

export interface BudgetOptions {
  readonly clock: Clock;
  readonly limits?: Readonly<Record<PolicyName, RateRule>>;
  /** Our part of every limit, 0 to 1. */
  readonly share?: number;
}

/** For a mirror, whose reads have no limits. */
export const UNLIMITED: Budget = { run: (_, send) => send(() => []) };

export function makeBudget({ clock, limits = SPEC_LIMITS, share }: BudgetOptions): Budget {
  const rates = mapPolicies((policy) => new PolicyRate(limits[policy], share));
  const lanes = mapPolicies((policy) => new Lane(clock, policy, rates));
  return {
    run: ({ policy, ...turn }, send) =>
      lanes[policy].run(turn, () => send((lesson) => learn(policy, lesson))),
  };

  /** Headers can only lower our rates. */
  function learn(lane: PolicyName, { declared, remaining, refusedForMs }: RateLesson): readonly PolicyName[] {
    const nowMs = clock.monotonicMs();
    for (const { policy, ...rule } of declared) if (isPolicy(policy)) rates[policy].declare(rule);
    for (const each of POLICIES) lanes[each].keepPace();
    const refused = refusedForMs === null ? [] : findRefused(lane, remaining);
    for (const policy of refused) rates[policy].blockUntil(nowMs + (refusedForMs ?? 0));
    for (const entry of remaining) {
      // A policy that the spec does not list covers, as far as we can tell, the endpoint that named it.
      const policy = isPolicy(entry.policy) ? entry.policy : lane;
      // Retry-After overrides the reset in the same answer.
      if (refused.includes(policy) || entry.remaining >= countPlaces(policy)) continue;
      rates[policy].blockUntil(nowMs + (entry.resetMs ?? SPEC_LIMITS[policy].windowMs));
    }
    return refused;
  }

  /** So many requests may be under way that an answer did not count. */
  function countPlaces(policy: PolicyName): number {
    const counted = POLICIES.filter((lane) => policiesOf(lane).includes(policy));
    return counted.reduce((sum, lane) => sum + lanes[lane].places, 0);
  }
}

/** What is known about one policy. */
class PolicyRate {
  readonly #rule: RateRule;
  readonly #share: number;
  intervalMs: number;
  /** Exclusive end of a refusal, or of a window that is used up. */
  blockedUntilMs = Number.NEGATIVE_INFINITY;

  constructor(limit: RateRule, share = SHARE_DEFAULT) {
    this.#share = share;
    this.#rule = takeShare(limit, share);
    this.intervalMs = intervalOf(this.#rule);
  }

  /** What the provider's headers declare is relevant only if it is stricter. */
  declare(limit: RateRule): void {
    const isUsable = limit.windowMs <= WINDOW_MAX_MS;
    const declaredMs = isUsable ? intervalOf(takeShare(limit, this.#share)) : 0;
    this.intervalMs = Math.max(intervalOf(this.#rule), declaredMs);
  }

  /** An earlier refusal that lasts longer stays in force. */
  blockUntil(untilMs: number): void {
    this.blockedUntilMs = Math.max(this.blockedUntilMs, untilMs);
  }
}

/** The requests of one policy, the most urgent first. */
class Lane {
  readonly #queue = new PQueue({ concurrency: 1 });
  readonly #clock: Clock;
  readonly #policy: PolicyName;
  readonly #rates: Readonly<Record<PolicyName, PolicyRate>>;

  constructor(clock: Clock, policy: PolicyName, rates: Readonly<Record<PolicyName, PolicyRate>>) {
    this.#clock = clock;
    this.#policy = policy;
    this.#rates = rates;
    this.keepPace();
  }

  get places(): number {
    return this.#queue.concurrency;
  }

  /** Has as many places as the present rates allow. */
  keepPace(): void {
    const places = Math.min(PLACES_MAX, Math.max(1, Math.floor(PLACE_INTERVAL_MS / this.#spacingMs())));
    if (places !== this.places) this.#queue.concurrency = places;
  }

  run<Result>({ priority, signal }: Omit<Turn, "policy">, send: () => Promise<Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      const leave = () => reject(signal?.reason as Error);
      signal?.addEventListener("abort", leave, { once: true });
      const takeTurn = async () => {
        try {
          signal?.throwIfAborted();
          await this.#waitWhileBlocked(signal);
        } catch (error) {
          reject(error as Error);
          return;
        } finally {
          signal?.removeEventListener("abort", leave);
        }
        await send().then(resolve, reject);
        // The place stays taken, so that who is next is decided when it is free.
        const isOpen = this.#blockedMs() <= BLOCK_WAIT_MAX_MS;
        if (isOpen) await this.#clock.sleep(Math.ceil(this.#spacingMs() * this.places));
      };
      void this.#queue.add(takeTurn, { priority: -PRIORITIES.indexOf(priority) });
    });
  }

  /** Between two requests of this lane. */
  #spacingMs(): number {
    return Math.max(
      this.#rates[this.#policy].intervalMs,
      this.#rates.sustained.intervalMs / SHARES[this.#policy],
    );
  }

  async #waitWhileBlocked(signal: AbortSignal | undefined): Promise<void> {
    for (let ms = this.#blockedMs(); ms > 0; ms = this.#blockedMs()) {
      if (ms > BLOCK_WAIT_MAX_MS) throw this.#makeBlockedError(ms);
      await this.#clock.sleep(ms, signal);
    }
  }

  #blockedMs(): number {
    const untilMs = Math.max(...policiesOf(this.#policy).map((policy) => this.#rates[policy].blockedUntilMs));
    return Math.max(0, untilMs - this.#clock.monotonicMs());
  }

  #makeBlockedError(afterMs: number): ProviderError {
    const policy = this.#policy;
    const until = formatInstant(addSeconds(this.#clock.now(), Math.ceil(afterMs / 1_000)));
    const text = `nothing was sent: by its rate limits the provider allows no request of "${policy}" before ${until}`;
    const code = "rate_limit_exceeded";
    return new ProviderError(text, { failure: "rate_limited", code, policy, retry: { afterMs } });
  }
}

/** The policies that a request under `policy` counts against: `sustained` covers all. */
export function policiesOf(policy: PolicyName): readonly PolicyName[] {
  return policy === "sustained" ? [policy] : [policy, "sustained"];
}

/** The policies with nothing left; if the answer names none, all that the request counted against. */
function findRefused(lane: PolicyName, remaining: readonly RemainingEntry[]): readonly PolicyName[] {
  const spent = remaining.filter((entry) => entry.remaining === 0).map((entry) => entry.policy);
  const possible = policiesOf(lane);
  const named = possible.filter((policy) => spent.includes(policy));
  return named.length > 0 ? named : possible;
}

function intervalOf({ requestsMax, windowMs }: RateRule): number {
  return windowMs / requestsMax;
}

function isPolicy(name: string): name is PolicyName {
  return (POLICIES as readonly string[]).includes(name);
}

function mapPolicies<Value>(make: (policy: PolicyName) => Value): Record<PolicyName, Value> {
  return { sustained: make("sustained"), "order-list": make("order-list"), geocoding: make("geocoding") };
}
