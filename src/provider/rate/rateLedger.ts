import {
  blockUntil,
  claimRemaining,
  countUsed,
  declareRule,
  endRequest,
  nextAllowedAt,
  startRequest,
  unusedPolicy,
  takeShare,
} from "../../domain/window/budget.ts";
import type { PolicyUsage, RateRule } from "../../domain/window/budget.ts";
import { isPolicy, mapPolicies, policiesOf, zeroCounts } from "./policies.ts";
import type { PolicyName } from "./policies.ts";
import type { Priority } from "../../domain/source/orderSource.ts";
import type { RateAnswer, RemainingEntry } from "./rateHeaders.ts";

export interface RateLesson extends RateAnswer {
  /** The wait required by a 429; null for any other answer. */
  readonly refusedForMs: number | null;
}

export interface PolicyReport {
  readonly policy: PolicyName;
  /** Our limit: the provider's minus the headroom. */
  readonly requestsMax: number;
  readonly windowMs: number;
  /** Requests counted against it now. */
  readonly used: number;
  /** Time until the next request may start; Infinity while that depends on one under way. */
  readonly waitMs: number;
  /** Time until its window ends, as the provider last said; null once it has ended, or if it said nothing. */
  readonly resetInMs: number | null;
  /** Requests sent since this process started, by purpose. */
  readonly spent: Readonly<Record<Priority, number>>;
}

/** Counts the requests under all policies of one organization and mode; `lane` is the narrowest policy of a request. */
export class RateLedger {
  readonly #limits: Readonly<Record<PolicyName, RateRule>>;
  readonly #usages: Record<PolicyName, PolicyUsage>;
  readonly #spent = mapPolicies(zeroCounts);
  #lastId = 0;

  constructor(limits: Readonly<Record<PolicyName, RateRule>>, share: number) {
    this.#limits = limits;
    this.#usages = mapPolicies((policy) => unusedPolicy(takeShare(limits[policy], share), share));
  }

  /** When a request of `lane` may start, not before `nowMs`; Infinity while that depends on one under way. */
  readyAt(lane: PolicyName, nowMs: number): number {
    return Math.max(...policiesOf(lane).map((policy) => nextAllowedAt(this.#usages[policy], nowMs)));
  }

  /** Records the start of a request; returns its id for `end` and `learn`. */
  start(lane: PolicyName, priority: Priority, nowMs: number): number {
    const id = (this.#lastId += 1);
    for (const policy of policiesOf(lane)) {
      this.#change(policy, (usage) => startRequest(usage, id, nowMs));
      this.#spent[policy][priority] += 1;
    }
    return id;
  }

  end(lane: PolicyName, id: number, nowMs: number): void {
    for (const policy of policiesOf(lane)) this.#change(policy, (usage) => endRequest(usage, id, nowMs));
  }

  hold(policy: PolicyName, untilMs: number): void {
    this.#change(policy, (usage) => blockUntil(usage, untilMs));
  }

  /** Headers can only lower our rates. Returns the policies that a 429 refers to, none for any other answer. */
  learn(lane: PolicyName, id: number, lesson: RateLesson, nowMs: number): readonly PolicyName[] {
    for (const { policy, ...limit } of lesson.declared) {
      if (isPolicy(policy)) this.#change(policy, (usage) => declareRule(usage, limit));
    }
    const { refusedForMs } = lesson;
    const refused = refusedForMs === null ? [] : findRefused(lane, lesson);
    for (const policy of refused) this.hold(policy, nowMs + (refusedForMs ?? 0));
    for (const entry of lesson.remaining) {
      const policy = isPolicy(entry.policy) ? entry.policy : lane;
      // Retry-After overrides the reset in the same answer.
      if (!refused.includes(policy)) this.#learnRemaining(policy, id, entry, nowMs);
    }
    return refused;
  }

  report(nowMs: number): PolicyReport[] {
    return Object.entries(this.#usages).map(([policy, usage]) => ({
      policy: policy as PolicyName,
      ...usage.rule,
      used: countUsed(usage, nowMs),
      waitMs: nextAllowedAt(usage, nowMs) - nowMs,
      resetInMs: resetIn(usage, nowMs),
      spent: { ...this.#spent[policy as PolicyName] },
    }));
  }

  #learnRemaining(policy: PolicyName, id: number, entry: RemainingEntry, nowMs: number): void {
    const resetsAtMs = nowMs + (entry.resetMs ?? this.#limits[policy].windowMs);
    if (isPolicy(entry.policy)) {
      const claim = { requestId: id, remaining: entry.remaining, resetsAtMs };
      this.#change(policy, (usage) => claimRemaining(usage, claim));
    } else if (entry.remaining === 0) {
      // A policy that the spec does not list covers, as far as we can tell, the endpoint that named it.
      this.hold(policy, resetsAtMs);
    }
  }

  #change(policy: PolicyName, next: (usage: PolicyUsage) => PolicyUsage): void {
    this.#usages[policy] = next(this.#usages[policy]);
  }
}

function resetIn({ claim, blockedUntilMs }: PolicyUsage, nowMs: number): number | null {
  const resetsAtMs = Math.max(claim?.resetsAtMs ?? Number.NEGATIVE_INFINITY, blockedUntilMs);
  return resetsAtMs > nowMs ? resetsAtMs - nowMs : null;
}

/** The policies with nothing left; if the answer names none, all that the request counted against. */
function findRefused(lane: PolicyName, { remaining }: RateLesson): readonly PolicyName[] {
  const spent = remaining.filter((entry) => entry.remaining === 0).map((entry) => entry.policy);
  const possible = policiesOf(lane);
  const named = possible.filter((policy) => spent.includes(policy));
  return named.length > 0 ? named : possible;
}
