import { PriorityQueue } from "p-queue";
import { SHARE_DEFAULT } from "../../domain/window/budget.ts";
import type { RateRule } from "../../domain/window/budget.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { mapPolicies, policiesOf, SPEC_LIMITS, zeroCounts } from "./policies.ts";
import type { PolicyName } from "./policies.ts";
import { PRIORITIES } from "../../domain/source/orderSource.ts";
import type { Priority } from "../../domain/source/orderSource.ts";
import { RateLedger } from "./rateLedger.ts";
import type { PolicyReport, RateLesson } from "./rateLedger.ts";

interface PermitRequest {
  /** The narrowest policy of the endpoint; `sustained` applies to every request and is implied. */
  readonly policy: PolicyName;
  readonly priority: Priority;
  readonly signal?: AbortSignal | undefined;
}

/** Permission to send one request now. `release` must be called eventually, even if nothing was sent. */
export interface Permit {
  /** Learns from the answer's headers. Returns the policies that a 429 refers to, none for any other answer. */
  learn(lesson: RateLesson): readonly PolicyName[];
  /** The head of the answer has arrived, or none will. */
  release(): void;
}

interface BudgetReport extends PolicyReport {
  /** Requests that wait for permission, by purpose. */
  readonly waiting: Readonly<Record<Priority, number>>;
}

/** Keeps all requests of this process for one organization and mode within the provider's rates. */
export interface Budget {
  /** Waits until the request may be sent. Rejects with the signal's reason if that is aborted first. */
  acquire(request: PermitRequest): Promise<Permit>;
  /** One report per policy, for ops. */
  spent(): BudgetReport[];
}

/** Narrow lanes first: of equally urgent requests, one goes first whose own policy allows fewer. */
const LANES: readonly PolicyName[] = ["order-list", "geocoding", "sustained"];

/** The loop checks at least this often; every change wakes it. */
const NAP_MAX_MS = 60_000;

/**
 * Grants requests one by one, the most urgent of the permitted ones first.
 *
 * p-queue orders them by priority. Its interval limits cannot be used here: they count starts but not the time under
 * way, support one policy per queue, cannot be lowered by headers, and read the machine's clock.
 */
export function makeBudget(deps: {
  clock: Clock;
  limits?: Readonly<Record<PolicyName, RateRule>>;
  /** Our share of every limit, 0 to 1; default SHARE_DEFAULT. */
  share?: number;
}): Budget {
  const { clock, limits = SPEC_LIMITS, share = SHARE_DEFAULT } = deps;
  const ledger = new RateLedger(limits, share);
  const line = makeLine();
  let running = false;
  let wake: () => void = () => undefined;

  async function grantAll(): Promise<void> {
    running = true;
    for (let next = choose(); next !== null; next = choose()) {
      const delayMs = next.atMs - clock.monotonicMs();
      if (delayMs > 0) await nap(Math.min(delayMs, NAP_MAX_MS));
      else line.grantFirst(next.lane);
    }
    running = false;
  }

  function choose(): { lane: PolicyName; atMs: number } | null {
    const nowMs = clock.monotonicMs();
    const heads = line.heads().map((head) => ({ ...head, atMs: ledger.readyAt(head.lane, nowMs) }));
    const ready = heads.filter(({ atMs }) => atMs <= nowMs);
    const byUrgency = ready.toSorted((left, right) => left.rank - right.rank);
    return byUrgency[0] ?? heads.toSorted((left, right) => (left.atMs < right.atMs ? -1 : 1))[0] ?? null;
  }

  async function nap(delayMs: number): Promise<void> {
    const alarm = new AbortController();
    wake = () => alarm.abort();
    try {
      await clock.sleep(delayMs, alarm.signal);
    } catch (error) {
      if (!alarm.signal.aborted) throw error;
    }
  }

  function start({ policy: lane, priority }: PermitRequest): Permit {
    const id = ledger.start(lane, priority, clock.monotonicMs());
    return {
      learn: (lesson) => ledger.learn(lane, id, lesson, clock.monotonicMs()),
      release() {
        ledger.end(lane, id, clock.monotonicMs());
        wake();
      },
    };
  }

  return {
    async acquire(request) {
      request.signal?.throwIfAborted();
      const permit = line.join(request, () => start(request));
      if (running) wake();
      else void grantAll();
      return permit;
    },
    spent: () =>
      ledger
        .report(clock.monotonicMs())
        .map((report) => ({ ...report, waiting: line.waiting(report.policy) })),
  };
}

/** How long a request that joins now would wait, at the known rates; at least 0. */
export function expectWaitMs(budget: Budget, lane: PolicyName): number {
  const waits = budget.spent().map(({ policy, requestsMax, windowMs, waitMs, waiting }) => {
    if (!policiesOf(lane).includes(policy)) return 0;
    const before = Object.values(waiting).reduce((sum, count) => sum + count, 0);
    // Unknown while it depends on a request under way.
    return (Number.isFinite(waitMs) ? waitMs : windowMs) + Math.floor(before / requestsMax) * windowMs;
  });
  return Math.max(0, ...waits);
}

function makeLine() {
  const lanes = mapPolicies(() => new PriorityQueue());
  // The queue does not reveal its head.
  const counts = mapPolicies(zeroCounts);

  return {
    /** Resolves with the result of `start` when it is the request's turn. */
    join({ policy: lane, priority, signal }: PermitRequest, start: () => Permit) {
      return new Promise<Permit>((resolve, reject) => {
        const leave = () => {
          counts[lane][priority] -= 1;
          signal?.removeEventListener("abort", abort);
        };
        const grant = async () => {
          leave();
          resolve(start());
        };
        const abort = () => {
          leave();
          lanes[lane].remove(grant);
          reject(signal?.reason as Error);
        };
        lanes[lane].enqueue(grant, { priority: -PRIORITIES.indexOf(priority) });
        counts[lane][priority] += 1;
        signal?.addEventListener("abort", abort);
      });
    },
    /** Each non-empty lane, with the rank of its most urgent request in PRIORITIES. */
    heads: () =>
      LANES.filter((lane) => lanes[lane].size > 0).map((lane) => ({
        lane,
        rank: PRIORITIES.findIndex((priority) => counts[lane][priority] > 0),
      })),
    grantFirst: (lane: PolicyName) => void lanes[lane].dequeue()?.(),
    waiting: (lane: PolicyName) => ({ ...counts[lane] }),
  };
}
