import { PriorityQueue } from "p-queue";
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
 * Each policy has a lane of its own, one of high rate with a few slots. A slot has one request under way; its next may
 * start a fixed delay after the answer. The provider counts a request at some instant before its answer, so it counts those of
 * a slot at least that delay apart, however slow the answers are. As `sustained` counts all requests, each lane has a
 * fixed share of it: no lane needs to know what another does, and neither do two processes. What the provider refuses, or
 * says to be used up, blocks all lanes of that policy until the time that it names. Start reading at makeBudget.
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

type Shares = Readonly<Record<PolicyName, number>>;

/** How the lanes share what `sustained` allows; the sum is 1. */
const SHARES: Shares = { "order-list": 0.1, geocoding: 0.4, sustained: 0.5 };
/** With writes forwarded, poller and web share it: the sum of both is 1. */
export const POLLER_SHARES: Shares = { "order-list": 0.1, geocoding: 0.01, sustained: 0.38 };
export const WRITER_SHARES: Shares = { "order-list": 0.01, geocoding: 0.4, sustained: 0.1 };

/*
 * A slow answer holds up one slot, not a lane with several. Slots may be counted at the same instant, so n of them can
 * exceed a lane's rate by n - 1 requests: with one for each ten requests per 10 s that is within our headroom.
 */
const SLOTS_MAX = 12;
const SLOT_INTERVAL_MS = 1_000;

/** A declared limit with a longer window has no effect on the spacing; what it says to be used up has. */
const WINDOW_MAX_MS = 3_600_000;
/** A block that lasts longer is the caller's to wait for: nobody should hang here silently. */
const BLOCK_WAIT_MAX_MS = 30_000;
/** A timer of this length at most: every change of the rates wakes it. */
const NAP_MAX_MS = 60_000;

interface PermitRequest {
  /** The narrowest policy of the endpoint; `sustained` applies to every request and is implied. */
  readonly policy: PolicyName;
  readonly priority: Priority;
  readonly signal?: AbortSignal | undefined;
}

/** What an answer says about rates; `refusedForMs` is the delay that a 429 asks for, null for any other answer. */
export interface RateLesson extends RateAnswer {
  readonly refusedForMs: number | null;
}

/** Permission to send one request now. `release` must be called eventually, even if nothing was sent. */
export interface Permit {
  /** Learns from the answer's headers. Returns the policies that a 429 refers to, none for any other answer. */
  learn(lesson: RateLesson): readonly PolicyName[];
  /** The head of the answer has arrived, or none will. */
  release(): void;
}

/** Keeps all requests of this process for one organization and mode within the provider's rates. */
export interface Budget {
  /**
   * Waits until the request may be sent. Rejects with the signal's reason if that is aborted first, and with a
   * ProviderError that names the time if the provider allows no request for longer than 30 s.
   */
  acquire(request: PermitRequest): Promise<Permit>;
}

export interface BudgetOptions {
  readonly clock: Clock;
  readonly limits?: Readonly<Record<PolicyName, RateRule>>;
  /** Our part of every limit, 0 to 1. */
  readonly share?: number;
  readonly shares?: Shares;
}

/** For a mirror, whose reads have no limits. */
export const UNLIMITED: Budget = {
  acquire: () => Promise.resolve({ learn: () => [], release: () => undefined }),
};

export function makeBudget({ clock, limits = SPEC_LIMITS, share, shares = SHARES }: BudgetOptions): Budget {
  const policies = mapPolicies((policy) => new PolicyState(limits[policy], share));
  const paceOf = (lane: PolicyName): Pace => {
    const spacing = Math.max(policies[lane].intervalMs, policies.sustained.intervalMs / shares[lane]);
    const slots = Math.min(SLOTS_MAX, Math.max(1, Math.floor(SLOT_INTERVAL_MS / spacing)));
    return { slots, intervalMs: Math.ceil(spacing * slots) };
  };
  const lanes = mapPolicies((lane) => {
    const counted = policiesOf(lane).map((policy) => policies[policy]);
    return new Lane({ clock, policy: lane, counted, pace: () => paceOf(lane) });
  });
  const wakeAll = () => {
    for (const lane of Object.values(lanes)) lane.wake();
  };

  function start(lane: PolicyName): Permit {
    const counted = policiesOf(lane).map((policy) => [policy, policies[policy].start()] as const);
    const numbers = Object.fromEntries(counted) as Partial<Record<PolicyName, number>>;
    const endSlot = lanes[lane].takeSlot();
    let released = false;
    return {
      learn: (lesson) => learn(policies, { lane, numbers, lesson, nowMs: clock.monotonicMs() }),
      release() {
        if (released) return;
        released = true;
        for (const [policy] of counted) policies[policy].end();
        endSlot();
        wakeAll();
      },
    };
  }

  return {
    acquire: ({ policy, priority, signal }) =>
      lanes[policy].join({ priority, signal, start: () => start(policy) }),
  };
}

interface Learnt {
  readonly lane: PolicyName;
  /** The request's number within each policy that it counts against. */
  readonly numbers: Partial<Record<PolicyName, number>>;
  readonly lesson: RateLesson;
  readonly nowMs: number;
}

/** Headers can only lower our rates. */
function learn(
  policies: Readonly<Record<PolicyName, PolicyState>>,
  { lane, numbers, lesson, nowMs }: Learnt,
): readonly PolicyName[] {
  for (const { policy, ...rule } of lesson.declared) if (isPolicy(policy)) policies[policy].declare(rule);
  const refused = lesson.refusedForMs === null ? [] : findRefused(lane, lesson.remaining);
  for (const policy of refused) policies[policy].blockUntil(nowMs + (lesson.refusedForMs ?? 0));
  for (const entry of lesson.remaining) {
    // A policy that the spec does not list covers, as far as we can tell, the endpoint that named it.
    const policy = isPolicy(entry.policy) ? entry.policy : lane;
    // Retry-After overrides the reset in the same answer.
    if (refused.includes(policy)) continue;
    const untilMs = nowMs + (entry.resetMs ?? SPEC_LIMITS[policy].windowMs);
    const number = numbers[policy];
    if (isPolicy(entry.policy) && number !== undefined)
      policies[policy].claim(number, entry.remaining, untilMs);
    else if (entry.remaining === 0) policies[policy].blockUntil(untilMs);
  }
  return refused;
}

/** What is known about one policy. */
class PolicyState {
  readonly #rule: RateRule;
  readonly #share: number;
  /** Our share of what the provider's headers declare; relevant only if it is stricter. */
  #declared: RateRule | null = null;
  #blockedUntilMs = Number.NEGATIVE_INFINITY;
  /** What the provider says is left until `resetsAtMs`, minus what it may not have counted. */
  #left = Number.POSITIVE_INFINITY;
  #resetsAtMs = Number.NEGATIVE_INFINITY;
  #started = 0;
  #underWay = 0;

  constructor(limit: RateRule, share = SHARE_DEFAULT) {
    this.#share = share;
    this.#rule = takeShare(limit, share);
  }

  get intervalMs(): number {
    const rules = this.#declared === null ? [this.#rule] : [this.#rule, this.#declared];
    return Math.max(...rules.map(({ windowMs, requestsMax }) => windowMs / requestsMax));
  }

  /** Exclusive end of a refusal, or of a window that is used up. */
  get blockedUntilMs(): number {
    return Math.max(this.#blockedUntilMs, this.#left <= 0 ? this.#resetsAtMs : Number.NEGATIVE_INFINITY);
  }

  start(): number {
    this.#left -= 1;
    this.#underWay += 1;
    return (this.#started += 1);
  }

  end(): void {
    this.#underWay -= 1;
  }

  declare(limit: RateRule): void {
    const usable = limit.windowMs > 0 && limit.windowMs <= WINDOW_MAX_MS;
    this.#declared = usable ? takeShare(limit, this.#share) : null;
  }

  /** An earlier refusal that lasts longer stays in force. */
  blockUntil(untilMs: number): void {
    this.#blockedUntilMs = Math.max(this.#blockedUntilMs, untilMs);
  }

  /** Requests that the provider may not have counted when it answered number `number` are subtracted. */
  claim(number: number, remaining: number, resetsAtMs: number): void {
    this.#left = remaining - (this.#started - number) - (this.#underWay - 1);
    this.#resetsAtMs = resetsAtMs;
  }
}

interface Pace {
  readonly slots: number;
  /** From an answer to the next request of the same slot. */
  readonly intervalMs: number;
}

interface LaneOptions {
  readonly clock: Clock;
  readonly policy: PolicyName;
  readonly counted: readonly PolicyState[];
  readonly pace: () => Pace;
}

/** The requests of one policy, the most urgent first. */
class Lane {
  readonly #queue = new PriorityQueue();
  readonly #options: LaneOptions;
  /** When the last request of each slot in use was answered; infinite while one is under way. */
  #answeredAtMs: { ms: number }[] = [];
  #running = false;
  #wake: () => void = () => undefined;

  constructor(options: LaneOptions) {
    this.#options = options;
  }

  /** Resolves with the result of `start` when it is the request's turn. */
  async join({
    priority,
    signal,
    start,
  }: Pick<PermitRequest, "priority" | "signal"> & { start: () => Permit }) {
    signal?.throwIfAborted();
    return new Promise<Permit>((resolve, reject) => {
      const turn = () => {
        signal?.removeEventListener("abort", abort);
        const blockedMs = this.#blockedMs();
        if (blockedMs > 0) reject(this.#makeBlockedError(blockedMs));
        else resolve(start());
        return Promise.resolve();
      };
      const abort = () => {
        this.#queue.remove(turn);
        this.wake();
        reject(signal?.reason as Error);
      };
      this.#queue.enqueue(turn, { priority: -PRIORITIES.indexOf(priority) });
      signal?.addEventListener("abort", abort, { once: true });
      if (this.#running) this.wake();
      else void this.#grantAll();
    });
  }

  /** Occupies a slot until the returned function is called. */
  takeSlot(): () => void {
    const nowMs = this.#options.clock.monotonicMs();
    const { intervalMs } = this.#options.pace();
    const slot = { ms: Number.POSITIVE_INFINITY };
    this.#answeredAtMs = [...this.#answeredAtMs.filter(({ ms }) => ms + intervalMs > nowMs), slot];
    return () => (slot.ms = this.#options.clock.monotonicMs());
  }

  wake(): void {
    this.#wake();
  }

  async #grantAll(): Promise<void> {
    const { clock } = this.#options;
    this.#running = true;
    while (this.#queue.size > 0) {
      const delayMs = this.#readyAtMs() - clock.monotonicMs();
      const blockedMs = this.#blockedMs();
      if (blockedMs > BLOCK_WAIT_MAX_MS || Math.max(delayMs, blockedMs) <= 0) void this.#queue.dequeue()?.();
      else await this.#nap(Math.min(Math.max(delayMs, blockedMs), NAP_MAX_MS));
    }
    this.#running = false;
  }

  /** When a slot is free; infinite while that depends on a request under way. */
  #readyAtMs(): number {
    const { slots, intervalMs } = this.#options.pace();
    const freeAtMs = this.#answeredAtMs
      .map(({ ms }) => ms + intervalMs)
      .toSorted((left, right) => right - left);
    return freeAtMs[slots - 1] ?? Number.NEGATIVE_INFINITY;
  }

  #blockedMs(): number {
    const untilMs = Math.max(...this.#options.counted.map(({ blockedUntilMs }) => blockedUntilMs));
    return Math.max(0, untilMs - this.#options.clock.monotonicMs());
  }

  #makeBlockedError(afterMs: number): ProviderError {
    const { clock, policy } = this.#options;
    const until = formatInstant(addSeconds(clock.now(), Math.ceil(afterMs / 1_000)));
    const text = `nothing was sent: by its rate limits the provider allows no request of "${policy}" before ${until}`;
    const code = "rate_limit_exceeded";
    return new ProviderError(text, { failure: "rate_limited", code, policy, retry: { afterMs } });
  }

  async #nap(delayMs: number): Promise<void> {
    const alarm = new AbortController();
    this.#wake = () => alarm.abort();
    try {
      await this.#options.clock.sleep(delayMs, alarm.signal);
    } catch (error) {
      if (!alarm.signal.aborted) throw error;
    }
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
