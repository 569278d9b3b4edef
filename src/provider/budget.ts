import PQueue from "p-queue";
import { addSeconds, formatInstant } from "../domain/order/instant.ts";
import type { Priority } from "../domain/source/orderSource.ts";
import { takeShare, type RateRule } from "../domain/window/rate.ts";
import { TIMER_MAX_MS, type Clock } from "../process/clock.ts";
import { ProviderError } from "./errors.ts";
import type { RemainingEntry } from "./rateHeaders.ts";

/*
 * Keeps the requests of this process within the provider's rates (spec, "Limits"): no 429 by us, and no request before
 * the end of Retry-After.
 *
 * Each policy has a lane of its own: a queue by priority with one request under way, one of high rate with a few. A
 * place in the lane is free again a fixed delay after the answer. The provider counts a request at some instant before
 * its answer, so it counts those of a place at least that delay apart, however slow the answers are. As `sustained`
 * counts all requests, each lane has a fixed share of it: no lane needs to know what another does, and neither do two
 * processes. What the provider refuses, or says to be used up, blocks all lanes of that policy until the time that it
 * names. Start reading at makeBudget.
 */

/** Policies of the spec, "Limits". */
const POLICIES = ["sustained", "order-list", "geocoding"] as const;
export type PolicyName = (typeof POLICIES)[number];

/** The ranks by which p-queue decides who is next. */
const PRIORITIES: Readonly<Record<Priority, number>> = { poll: 3, refetch: 2, backfill: 1, verify: 0 };

/** The limits of the spec, per organization and mode. */
export const SPEC_LIMITS: Readonly<Record<PolicyName, RateRule>> = {
  sustained: { requestsMax: 200, windowMs: 10_000 },
  "order-list": { requestsMax: 20, windowMs: 10_000 },
  geocoding: { requestsMax: 100, windowMs: 10_000 },
};

/**
 * The lanes' shares of what `sustained` allows. Poller and web are two processes with a budget each, and the only lane
 * that both use is `sustained`: with it counted twice, the sum is 1.
 */
const SHARES: Readonly<Record<PolicyName, number>> = { "order-list": 0.1, geocoding: 0.4, sustained: 0.25 };

/*
 * A slow answer holds up one place, not a lane with several. Places may be counted at the same instant, so n of them
 * can exceed a lane's rate by n - 1 requests: with one for each ten requests per 10 s that is within our headroom.
 */
const PLACES_MAX = 12;
const PLACE_INTERVAL_MS = 1_000;

/** A block that lasts longer is the caller's to wait for: nobody should hang here silently. */
const BLOCK_WAIT_MAX_MS = 30_000;

interface Turn {
  /** The narrowest policy of the endpoint; `sustained` applies to every request and is implied. */
  readonly policy: PolicyName;
  readonly priority: Priority;
  /** Abandons the wait, but not a request under way. */
  readonly signal?: AbortSignal | undefined;
}

/** An answer's words about rates (spec, "Limits"). */
export interface RateLesson {
  readonly remaining: readonly RemainingEntry[];
  /** The delay that a 429 asks for; null for any other answer. */
  readonly refusedForMs: number | null;
}

/** Learns from an answer. Returns the policies that a 429 refers to, none for any other answer. */
export type Learn = (lesson: RateLesson) => readonly PolicyName[];

/** Keeps all requests of this process for one organization and mode within the provider's rates. */
export interface Budget {
  /**
   * Sends a request when it is its turn, and settles as `send` does. Rejects with the signal's reason if that is
   * aborted first, and with a ProviderError that names the time if the provider allows no request for longer than 30 s.
   */
  run<Result>(turn: Turn, send: (learn: Learn) => Promise<Result>): Promise<Result>;
}

export interface BudgetOptions {
  readonly clock: Clock;
  readonly limits?: Readonly<Record<PolicyName, RateRule>>;
  /** For a provider that counts every list: the least delay between two of them. */
  readonly listIntervalMs?: number | undefined;
  /** Our part of every limit, 0 to 1. */
  readonly share?: number;
}

/** For a mirror, whose reads have no limits. */
export const UNLIMITED: Budget = { run: (_, send) => send(() => []) };

export function makeBudget({ clock, limits = SPEC_LIMITS, listIntervalMs, share }: BudgetOptions): Budget {
  const lists =
    listIntervalMs === undefined ? limits["order-list"] : { requestsMax: 1, windowMs: listIntervalMs };
  const intervalsMs = mapPolicies((policy) => {
    const rule = takeShare(policy === "order-list" ? lists : limits[policy], share);
    return rule.windowMs / rule.requestsMax;
  });
  /** Exclusive end of a refusal, or of a window that is used up. An earlier one that lasts longer stays in force. */
  const blockedUntilMs = mapPolicies(() => Number.NEGATIVE_INFINITY);
  const block = (policy: PolicyName, ms: number) =>
    (blockedUntilMs[policy] = Math.max(blockedUntilMs[policy], clock.monotonicMs() + ms));
  const lanes = mapPolicies((policy) => {
    const spacingMs = Math.max(intervalsMs[policy], intervalsMs.sustained / SHARES[policy]);
    const counted = policiesOf(policy);
    const untilMs = () => Math.max(...counted.map((each) => blockedUntilMs[each]));
    return new Lane({ clock, policy, spacingMs, blockedUntilMs: untilMs });
  });
  /** Requests that may be under way and that an answer did not count. */
  const places = mapPolicies((policy) =>
    POLICIES.filter((lane) => policiesOf(lane).includes(policy)).reduce(
      (sum, lane) => sum + lanes[lane].places,
      0,
    ),
  );

  function learn(lane: PolicyName, { remaining, refusedForMs }: RateLesson): readonly PolicyName[] {
    const refused = refusedForMs === null ? [] : findRefused(lane, remaining);
    for (const policy of refused) block(policy, refusedForMs ?? 0);
    for (const entry of remaining) {
      // A policy that the spec does not list covers, as far as we can tell, the endpoint that named it.
      const policy = isPolicy(entry.policy) ? entry.policy : lane;
      // Retry-After overrides the reset in the same answer.
      if (refused.includes(policy) || entry.remaining >= places[policy]) continue;
      block(policy, entry.resetMs ?? SPEC_LIMITS[policy].windowMs);
    }
    return refused;
  }

  return {
    run: ({ policy, ...turn }, send) =>
      lanes[policy].run(turn, () => send((lesson) => learn(policy, lesson))),
  };
}

interface LaneOptions {
  readonly clock: Clock;
  readonly policy: PolicyName;
  /** Between two requests of the lane. */
  readonly spacingMs: number;
  readonly blockedUntilMs: () => number;
}

/** The requests of one policy, the most urgent first. */
class Lane {
  readonly places: number;
  readonly #queue: PQueue;
  readonly #options: LaneOptions;

  constructor(options: LaneOptions) {
    this.#options = options;
    this.places = Math.min(PLACES_MAX, Math.max(1, Math.floor(PLACE_INTERVAL_MS / options.spacingMs)));
    this.#queue = new PQueue({ concurrency: this.places });
  }

  async run<Result>(
    { priority, signal }: Omit<Turn, "policy">,
    send: () => Promise<Result>,
  ): Promise<Result> {
    const { clock, spacingMs } = this.#options;
    signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      // Who waits keeps the process; the delay after the last answer does not.
      const waiting = setInterval(() => undefined, TIMER_MAX_MS);
      const leave = () => {
        clearInterval(waiting);
        reject(signal?.reason as Error);
      };
      signal?.addEventListener("abort", leave, { once: true });
      const takeTurn = async () => {
        try {
          signal?.throwIfAborted();
          await this.#waitWhileBlocked(signal);
        } catch (error) {
          reject(error as Error);
          return;
        } finally {
          clearInterval(waiting);
          signal?.removeEventListener("abort", leave);
        }
        await send().then(resolve, reject);
        // The place stays taken, so that who is next is decided when it is free.
        const isOpen = this.#blockedMs() <= BLOCK_WAIT_MAX_MS;
        if (isOpen) await clock.sleep(Math.ceil(spacingMs * this.places), undefined, false);
      };
      void this.#queue.add(takeTurn, { priority: PRIORITIES[priority] });
    });
  }

  async #waitWhileBlocked(signal: AbortSignal | undefined): Promise<void> {
    for (let ms = this.#blockedMs(); ms > 0; ms = this.#blockedMs()) {
      if (ms > BLOCK_WAIT_MAX_MS) throw this.#makeBlockedError(ms);
      await this.#options.clock.sleep(ms, signal);
    }
  }

  #blockedMs(): number {
    const { clock, blockedUntilMs } = this.#options;
    return Math.max(0, blockedUntilMs() - clock.monotonicMs());
  }

  #makeBlockedError(afterMs: number): ProviderError {
    const { clock, policy } = this.#options;
    const until = formatInstant(addSeconds(clock.now(), Math.ceil(afterMs / 1_000)));
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

function isPolicy(name: string): name is PolicyName {
  return (POLICIES as readonly string[]).includes(name);
}

function mapPolicies<Value>(make: (policy: PolicyName) => Value): Record<PolicyName, Value> {
  return { sustained: make("sustained"), "order-list": make("order-list"), geocoding: make("geocoding") };
}
