import { getEventListeners } from "node:events";
import fc from "fast-check";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import {
  makeBudget,
  type Budget,
  type Learn,
  type PolicyName,
  type RateLesson,
} from "../../../src/provider/budget.ts";
import type { Priority } from "../../../src/domain/source/orderSource.ts";
import { makeSimulatedClock, type SimulatedClock } from "../../support/virtual/simulatedClock.ts";

/** Most urgent first. */
const PRIORITIES = ["poll", "refetch", "backfill", "verify"] as const satisfies Priority[];

const WINDOW_MS = 10_000;
const HOUR_MS = 3_600_000;

/** A budget with the spec's limits, in a time of its own. */
function open() {
  const clock = makeSimulatedClock();
  return { clock, budget: makeBudget({ clock }) };
}

/** A request under way, until `release`. */
interface Permit {
  readonly learn: Learn;
  readonly release: () => void;
}

/** Resolves when it is the request's turn. */
function acquire(budget: Budget, turn: Parameters<Budget["run"]>[0]): Promise<Permit> {
  return new Promise((resolve, reject) => {
    const send = (learn: Learn) => new Promise<void>((release) => resolve({ learn, release }));
    budget.run(turn, send).catch(reject);
  });
}

interface Sent {
  readonly policy: PolicyName;
  readonly priority: Priority;
  readonly askedAtMs: number;
  readonly startedAtMs: number;
  /** When the provider counted it. */
  readonly countedAtMs: number;
}

interface Request {
  readonly atMs: number;
  readonly policy: PolicyName;
  readonly priority: Priority;
  readonly latencyMs: number;
  /** The part of the latency before the provider's count. */
  readonly counted: number;
}

/** Acquires at each request's time and simulates the exchange. Returns what was sent, in sequence. */
function play(clock: SimulatedClock, budget: Budget, requests: readonly Request[]): Sent[] {
  const sent: Sent[] = [];
  for (const { atMs, policy, priority, latencyMs, counted } of requests) {
    void (async () => {
      await clock.sleep(atMs - clock.monotonicMs());
      const permit = await acquire(budget, { policy, priority });
      const startedAtMs = clock.monotonicMs();
      const countedAtMs = startedAtMs + latencyMs * counted;
      sent.push({ policy, priority, askedAtMs: atMs, startedAtMs, countedAtMs });
      await clock.sleep(latencyMs);
      permit.release();
    })();
  }
  return sent;
}

const busiestWindow = (instants: readonly number[]) => {
  const sorted = instants.toSorted((left, right) => left - right);
  let most = 0;
  let from = 0;
  sorted.forEach((at, index) => {
    while (sorted[from]! <= at - WINDOW_MS) from += 1;
    most = Math.max(most, index - from + 1);
  });
  return most;
};

const lesson = (fields: Partial<RateLesson>): RateLesson => ({
  remaining: [],
  refusedForMs: null,
  ...fields,
});

/** Acquires one after another, each released immediately. Returns when each was granted. */
async function grantTimes(clock: SimulatedClock, budget: Budget, policy: PolicyName, count: number) {
  const times: number[] = [];
  for (let index = 0; index < count; index += 1) {
    void acquire(budget, { policy, priority: "poll" }).then((permit) => {
      times.push(clock.monotonicMs());
      permit.release();
    });
  }
  await clock.runUntil(clock.monotonicMs() + HOUR_MS);
  return times;
}

async function grantOne(clock: SimulatedClock, budget: Budget, policy: PolicyName): Promise<Permit> {
  const permit = acquire(budget, { policy, priority: "poll" });
  await clock.runUntil(clock.monotonicMs());
  return permit;
}

/** A budget after an answer with these headers, which came 200 ms after the beginning. */
async function openAfter(policy: PolicyName, fields: Partial<RateLesson>) {
  const { clock, budget } = open();
  const permit = await grantOne(clock, budget, policy);
  await clock.runUntil(200);
  const refused = permit.learn(lesson(fields));
  permit.release();
  return { clock, budget, refused };
}

describe("any arrivals of requests", () => {
  const request = fc.record<Request>({
    atMs: fc.integer({ min: 0, max: 30_000 }),
    policy: fc.constantFrom<PolicyName>("order-list", "geocoding", "sustained"),
    priority: fc.constantFrom(...PRIORITIES),
    latencyMs: fc.integer({ min: 0, max: 15_000 }),
    counted: fc.double({ min: 0, max: 1, noNaN: true }),
  });
  // The spec's proportions, at sizes that random arrivals reach.
  const limits = {
    sustained: { requestsMax: 40, windowMs: WINDOW_MS },
    "order-list": { requestsMax: 10, windowMs: WINDOW_MS },
    geocoding: { requestsMax: 20, windowMs: WINDOW_MS },
  };

  it("stay within every policy in every sliding window of the provider, are all sent, and the more urgent of a policy first", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(request, { maxLength: 150, size: "max" }), async (requests) => {
        const clock = makeSimulatedClock();
        const sent = play(clock, makeBudget({ clock, limits }), requests);
        await clock.runUntil(HOUR_MS);
        const counts = (policies: readonly PolicyName[]) =>
          sent.filter(({ policy }) => policies.includes(policy)).map(({ countedAtMs }) => countedAtMs);
        expect(sent).toHaveLength(requests.length);
        expect(busiestWindow(counts(["order-list"]))).toBeLessThanOrEqual(9);
        expect(busiestWindow(counts(["geocoding"]))).toBeLessThanOrEqual(18);
        expect(busiestWindow(counts(["order-list", "geocoding", "sustained"]))).toBeLessThanOrEqual(36);
        sent.forEach((earlier, index) => {
          const overtaken = sent
            .slice(index + 1)
            .filter(
              (later) =>
                later.policy === earlier.policy &&
                later.askedAtMs < earlier.startedAtMs &&
                PRIORITIES.indexOf(later.priority) < PRIORITIES.indexOf(earlier.priority),
            );
          expect(overtaken).toEqual([]);
        });
      }),
      { numRuns: 100 },
    );
  });
});

it("does not delay other policies behind a refused one, and refetches behind a waiting list read", async () => {
  const remaining = [
    { policy: "order-list", remaining: 0, resetMs: 20_000 },
    { policy: "sustained", remaining: 120, resetMs: 20_000 },
  ];
  const { clock, budget, refused } = await openAfter("order-list", { refusedForMs: 20_000, remaining });
  expect(refused).toEqual(["order-list"]);
  void acquire(budget, { policy: "order-list", priority: "poll" });
  const [first = Infinity, second = Infinity] = await grantTimes(clock, budget, "sustained", 2);
  expect(Math.max(first, second)).toBeLessThan(400);
});

describe("learning from answers", () => {
  const left = (remaining: number, resetMs: number | null) => [{ policy: "order-list", remaining, resetMs }];

  it.each<[string, Partial<RateLesson>, number]>([
    [
      "the end of Retry-After, whatever reset the same answer names",
      { refusedForMs: 2_000, remaining: left(0, 60_000) },
      2_000,
    ],
    ["the reset when nothing remains", { remaining: left(0, 4_000) }, 4_000],
    ["one window when nothing remains and the reset is unknown", { remaining: left(0, null) }, WINDOW_MS],
    ["its usual turn after generous headers", { remaining: left(999, 0) }, 556],
  ])("waits for %s", async (_, fields, waitMs) => {
    const { clock, budget } = await openAfter("order-list", fields);
    expect(await grantTimes(clock, budget, "order-list", 1)).toEqual([200 + waitMs]);
  });

  it("keeps a longer refusal when a request under way is refused for a shorter time", async () => {
    const { clock, budget } = open();
    const permit = await grantOne(clock, budget, "sustained");
    const other = await grantOne(clock, budget, "sustained");
    permit.learn(lesson({ refusedForMs: 20_000 }));
    other.learn(lesson({ refusedForMs: 1_000 }));
    permit.release();
    other.release();
    expect((await grantTimes(clock, budget, "sustained", 2))[0]).toBe(20_000);
  });

  it("holds all policies of a refused request when the answer names none", async () => {
    const { clock, budget, refused } = await openAfter("order-list", { refusedForMs: 7_000 });
    expect(refused).toEqual(["order-list", "sustained"]);
    expect(await grantTimes(clock, budget, "sustained", 1)).toEqual([7_200]);
  });

  it("leaves what others under way may need: with fewer than that, it waits for the reset", async () => {
    const remaining = (count: number) => [{ policy: "geocoding", remaining: count, resetMs: 4_000 }];
    const enough = await openAfter("geocoding", { remaining: remaining(7) });
    expect((await grantTimes(enough.clock, enough.budget, "geocoding", 1))[0]).toBe(200);
    const scarce = await openAfter("geocoding", { remaining: remaining(6) });
    expect(await grantTimes(scarce.clock, scarce.budget, "geocoding", 1)).toEqual([4_200]);
  });

  it("lists once in an interval when every read counts, spaced from the answer", async () => {
    const clock = makeSimulatedClock();
    const budget = makeBudget({ clock, listIntervalMs: 30_000 });
    expect(await grantTimes(clock, budget, "order-list", 3)).toEqual([0, 30_000, 60_000]);
  });

  it("refuses at once what the provider does not allow for long, and says until when", async () => {
    const { clock, budget } = open();
    const permit = await grantOne(clock, budget, "order-list");
    const waiting = acquire(budget, { policy: "order-list", priority: "poll" });
    permit.learn(lesson({ remaining: [{ policy: "order-list", remaining: 0, resetMs: 600_000 }] }));
    permit.release();
    for (const asked of [waiting, acquire(budget, { policy: "order-list", priority: "backfill" })]) {
      await expect(asked).rejects.toMatchObject({
        failure: "rate_limited",
        policy: "order-list",
        retry: { afterMs: 600_000 },
        message: expect.stringContaining("before 2023-11-14T22:23:20Z") as string,
      });
    }
    await clock.runUntil(600_000);
    expect(await grantTimes(clock, budget, "order-list", 1)).toEqual([600_000]);
  });

  it("gives a policy of high rate some places, each again after as many turns", async () => {
    const { clock, budget } = open();
    const times = await grantTimes(clock, budget, "sustained", 9);
    expect(times).toEqual([0, 1, 2].flatMap((turn) => Array<number>(4).fill(turn * 889)).slice(0, 9));
  });

  it("takes another place while an answer is slow, but only one list at a time", async () => {
    const { clock, budget } = open();
    const slow = await grantOne(clock, budget, "sustained");
    const list = await grantOne(clock, budget, "order-list");
    (await grantOne(clock, budget, "sustained")).release();
    let grantedAtMs: number | null = null;
    void acquire(budget, { policy: "order-list", priority: "poll" }).then(() => {
      grantedAtMs = clock.monotonicMs();
    });
    await clock.runUntil(9_000);
    expect(grantedAtMs).toBeNull();
    slow.release();
    list.release();
    await clock.runUntil(HOUR_MS);
    expect(grantedAtMs).toBe(9_000 + 556);
  });

  it("assigns an unknown policy to the endpoint that answered", async () => {
    const spent = { remaining: [{ policy: "monthly", remaining: 0, resetMs: 30_000 }] };
    const { clock, budget } = await openAfter("geocoding", spent);
    expect((await grantTimes(clock, budget, "sustained", 1))[0]).toBeLessThan(300);
    expect(await grantTimes(clock, budget, "order-list", 1)).toEqual([HOUR_MS + 200]);
    const again = await openAfter("geocoding", spent);
    expect(await grantTimes(again.clock, again.budget, "geocoding", 1)).toEqual([30_200]);
  });
});

it.each([
  ["for a time", 5_000, 5_000],
  ["for its turn", null, 1_156],
])(
  "who is aborted while it waits %s gets the reason, uses no request, and keeps nothing",
  async (_, refusedForMs, next) => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    onTestFinished(() => void vi.useRealTimers());
    const { clock, budget } = open();
    const control = new AbortController();
    const { signal } = control;
    const ask = () => acquire(budget, { policy: "order-list", priority: "poll", signal });
    const permit = await grantOne(clock, budget, "order-list");
    permit.learn(lesson({ refusedForMs }));
    const waiting = [ask(), ask()];
    if (refusedForMs !== null) permit.release();
    await clock.runUntil(600);
    const reason = new Error("shutting down");
    control.abort(reason);
    expect(vi.getTimerCount()).toBe(0);
    permit.release();
    for (const asked of [...waiting, ask()]) await expect(asked).rejects.toBe(reason);
    expect(await grantTimes(clock, budget, "order-list", 1)).toEqual([next]);
    const kept = new AbortController();
    await budget.run({ policy: "sustained", priority: "poll", signal: kept.signal }, async () => undefined);
    expect([signal, kept.signal].flatMap((each) => getEventListeners(each, "abort"))).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  },
);
