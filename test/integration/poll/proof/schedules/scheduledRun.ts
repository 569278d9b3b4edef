import assert from "node:assert/strict";
import fc from "fast-check";
import type { Poller } from "../../../../../src/poll/poller.ts";
import { isSameInstant } from "../../../../support/mirror/decide.ts";
import { arbitraryMake, type Denial, type Make, type Shown } from "./scheduledProvider.ts";
import {
  INTERVAL_SECONDS,
  MARGIN_SECONDS,
  nanos,
  type Look,
  type ScheduledWorld,
  openLane,
  type Lane,
} from "./scheduledWorld.ts";
import { expect, it } from "vitest";

const ORDERS = ["A", "B", "C", "D", "E"] as const;
const order = fc.constantFrom(...ORDERS);
const step = <Kind extends string, Drawn = unknown>(
  weight: number,
  kinds: readonly Kind[],
  more?: { readonly [Key in keyof Drawn]: fc.Arbitrary<Drawn[Key]> },
) => {
  const kind = kinds.length === 1 ? fc.constant(kinds[0]!) : fc.constantFrom(...kinds);
  const arbitrary = fc.record({ kind, ...more }) as fc.Arbitrary<{ readonly kind: Kind } & Drawn>;
  return { weight, arbitrary };
};
/** Events that may happen between two cycles or during one. */
const arbitraryStep = fc.oneof(
  step(6, ["change"], {
    orders: fc.uniqueArray(order, { minLength: 1, maxLength: 5 }),
    // At most a minute: how far a provider that keeps its promises may backdate.
    skew: fc.constantFrom(0, -0.125, -0.25, -40),
    announced: fc.boolean(),
    // Another change half a second earlier; the events of both arrive at once.
    twice: fc.boolean(),
  }),
  step(3, ["lie"], {
    order: fc.oneof(order, fc.constant("INVENTED")),
    age: fc.constantFrom(-7_200, -60, 1, 100, 1_000, 7_200),
  }),
  step(2, ["restart", "kill", "takeOver", "takeBack"]),
  // After that many list requests of the cycle.
  step(2, ["killAmid", "endLeaseAmid", "loseCommitsAmid", "restoreAmid"], {
    requests: fc.integer({ min: 1, max: 5 }),
  }),
  step(1, ["lag"], { seconds: fc.constantFrom(0, 20, 250, 700, 3_600) }),
  step(1, ["clock"], { errorSeconds: fc.constantFrom(0, 86_400, -3_600) }),
  step(1, ["goBack"], { seconds: fc.constantFrom(60, 900, 7_200) }),
  step(1, ["fall"], { order, seconds: fc.constantFrom(120, 3_600) }),
  step(2, ["poison", "garble"], { order }),
  step(2, ["break"], { order }),
  step(1, ["hide"], { listed: fc.constantFrom(0, 0, 1, 2) }),
  // An outage that looks like absence: for some orders, or, with empty lists, for all.
  step(3, ["deny"], {
    orders: fc.oneof(fc.constant([...ORDERS]), fc.uniqueArray(order, { minLength: 1, maxLength: 3 })),
    as: fc.constantFrom<Denial>("named", "named", "unnamed", "another order"),
    lists: fc.boolean(),
    asked: fc.boolean(),
  }),
  step(2, ["heal"]),
  step(3, ["wait"], { seconds: fc.constantFrom(60, 300, 1_000) }),
);
type Step = typeof arbitraryStep extends fc.Arbitrary<infer One> ? One : never;

/** A list that omitted an order is believed again a margin later; what it lacks is gone with the second answer after that. */
const HEALING_WAITS = [0, 0, 0, MARGIN_SECONDS, 0, 0, MARGIN_SECONDS, 0, 0];
/** A provider that has lost all orders looks like an outage for a day; then each is gone with the second answer. */
const LOSS_WAITS = [86_400, 0, MARGIN_SECONDS, 0, MARGIN_SECONDS, 0];

/** A list that shows a change later than any margin, or that goes back, breaks what a proof rests on. */
const WORD_LAG_SECONDS = 250;
const breaksWord = (one: Step) =>
  one.kind === "goBack" || one.kind === "fall" || (one.kind === "lag" && one.seconds > WORD_LAG_SECONDS);

const isShown = (state: Shown, stored: Shown | undefined): boolean =>
  stored?.status === state.status && isSameInstant(stored.updatedAt, state.updatedAt);

/**
 * Orders covered by the proof that differ in the mirror, except for exceptions: it must have no state that never was, and
 * none that a change before the claim has superseded; and of every change before the claim it must know at least that
 * there is such an order.
 */
function listFalse(world: ScheduledWorld, { safeThrough, served, excepted }: Look): string[] {
  const truth = world.provider.truth();
  const unknown = world.provider
    .history()
    .filter(({ reference, updatedAt }) => updatedAt < safeThrough && !served.has(reference))
    .map(({ reference }) => reference);
  const missed = [...truth].filter(([reference, { updatedAt }]) => {
    const stored = served.get(reference)?.updatedAt ?? 0n;
    return updatedAt < safeThrough && stored < updatedAt && !isSameInstant(stored, updatedAt);
  });
  const invented = [...served].filter(([reference, { updatedAt, status }]) => {
    const made = world.provider.history().filter((one) => one.reference === reference);
    const shown = made.findLastIndex(
      (one) => one.status === status && isSameInstant(one.updatedAt, updatedAt),
    );
    const isSuperseded = made.slice(shown + 1).some((later) => later.updatedAt < safeThrough);
    return updatedAt < safeThrough && (shown === -1 || isSuperseded);
  });
  const differing = [...missed, ...invented].map(([reference]) => reference);
  return [...unknown, ...differing].filter((one) => !excepted.has(one));
}

/** One schedule under way. */
class ScheduledRun {
  readonly #world: ScheduledWorld;
  #poller: Poller;
  #look: Look | undefined;
  #beside: unknown;
  #keepsItsWord = true;
  #wentBack = false;
  /** Since when single reads deny orders that lists show; undefined while none does. */
  #deniedSince: bigint | undefined;
  /** False once the provider broke its word or dated a change before an earlier one, or somebody else sent an event. */
  #eventsAreTrue = true;

  constructor(world: ScheduledWorld) {
    this.#world = world;
    this.#poller = world.startPoller();
  }

  async begin(): Promise<void> {
    this.#beside = await this.#world.lookBeside();
    this.#world.provider.change("A", 0);
    await this.cycle();
  }

  async cycle(): Promise<void> {
    await this.#world.advance(INTERVAL_SECONDS);
    await this.#poller.runOnce();
    await this.#judge();
  }

  async #judge(): Promise<void> {
    // Two answers, a margin apart, are believed if they deny an order by name and the list shows others.
    const { provider } = this.#world;
    const now = this.#world.now();
    const denies = provider.listsAtMost > 0 && [...provider.denied.values()].some((how) => how !== "unnamed");
    this.#deniedSince = denies ? (this.#deniedSince ?? now) : undefined;
    const isDenialShort =
      this.#deniedSince === undefined || now < this.#deniedSince + nanos(MARGIN_SECONDS - INTERVAL_SECONDS);
    this.#keepsItsWord &&= isDenialShort;
    // What is denied for longer is gone, and reads contradict its events.
    this.#eventsAreTrue &&= isDenialShort;
    const before = this.#look;
    const next = await this.#world.look();
    this.#look = next;
    assert.deepEqual(this.#world.failedTasks, [], "no task of the leader fails");
    const wentBack =
      before !== undefined && next.safeThrough < before.safeThrough && next.breaches === before.breaches;
    assert.equal(wentBack, false, "safe_through goes back only by a recorded breach");
    if (this.#eventsAreTrue)
      assert.equal(next.refuted, 0, "no event is called refuted while every event is true");
    if (this.#eventsAreTrue) {
      const made = this.#world.provider.history().length;
      assert.equal(
        next.changes <= made,
        true,
        `the feed has ${next.changes} changes, the provider made ${made}`,
      );
    }
    const untrue = this.#keepsItsWord ? listFalse(this.#world, next) : [];
    assert.deepEqual(untrue, [], "claimed, and not so");
    if (this.#keepsItsWord)
      assert.equal(next.breaches, 0, "no proof is withdrawn of a provider that keeps its word");
  }

  async take(one: Step): Promise<void> {
    this.#keepsItsWord &&= !breaksWord(one) && !this.#hides(one);
    const goesBack = one.kind === "change" && one.skew <= -INTERVAL_SECONDS;
    this.#eventsAreTrue &&= this.#keepsItsWord && one.kind !== "lie" && !goesBack;
    await this.#do(one);
    await this.cycle();
  }

  /** Whether its lists hide what nobody can know of: an empty one shows that by the orders that it should show. */
  #hides(one: Step): boolean {
    const { provider } = this.#world;
    if (one.kind === "hide") return one.listed > 0 || provider.garbled.size > 0;
    return one.kind === "garble" && provider.listsAtMost < Infinity;
  }

  async #do(one: Step): Promise<void> {
    const world = this.#world;
    const { provider } = world;
    switch (one.kind) {
      case "change":
        for (const reference of one.orders) {
          const skews = one.twice ? [one.skew - 0.5, one.skew] : [one.skew];
          const changes = skews.map((skew) => provider.change(reference, skew));
          if (one.announced) await Promise.all(changes.map((change) => world.deliver(reference, change)));
        }
        return;
      case "lie":
        return world.deliver(one.order, { updatedAt: world.now() - nanos(one.age), status: "a lie" });
      case "fall":
        return void provider.change(one.order, -one.seconds);
      case "lag":
        provider.lagSeconds = one.seconds;
        return;
      case "clock":
        provider.clockErrorSeconds = one.errorSeconds;
        return;
      case "goBack":
        this.#wentBack = true;
        return provider.goBack(one.seconds);
      case "poison":
        return void provider.poisoned.add(one.order);
      case "garble":
        return void provider.garbled.add(one.order);
      case "break":
        return void provider.breaking.add(one.order);
      case "deny":
        for (const reference of one.orders) provider.denied.set(reference, one.as);
        if (one.lists && one.orders.length === ORDERS.length) provider.listsAtMost = 0;
        if (one.asked) await world.askAbout(one.orders);
        return;
      case "hide":
        provider.listsAtMost = one.listed;
        return;
      case "heal":
        return provider.heal();
      case "wait":
        return world.advance(one.seconds);
      case "restart":
        await this.#poller.close();
        this.#poller = world.startPoller();
        return;
      case "kill":
        return void (await this.#succeed());
      case "takeOver":
        return void (await this.#takeOver());
      case "takeBack":
        return this.#takeBack();
      case "killAmid":
      case "endLeaseAmid":
      case "loseCommitsAmid":
      case "restoreAmid":
        return this.#amid(one.kind, one.requests);
      default: {
        const never: never = one;
        return never;
      }
    }
  }

  /** The process has ended, and its lease has expired. */
  async #succeed(): Promise<Poller> {
    const former = this.#poller;
    await this.#world.endLease();
    this.#poller = this.#world.startPoller();
    return former;
  }

  /** Another process leads, and the former leader continues as if it still led. */
  async #takeOver(): Promise<Poller> {
    const former = await this.#succeed();
    await this.cycle();
    await this.#world.advance(INTERVAL_SECONDS);
    await former.runOnce();
    await this.#judge();
    return former;
  }

  /** The former leader leads again, with all that it kept, once the other process has ended. */
  async #takeBack(): Promise<void> {
    const former = await this.#takeOver();
    await this.#poller.close();
    this.#poller = former;
  }

  /** Something happens while a cycle waits for the answer to a list request. */
  async #amid(kind: Extract<Step["kind"], `${string}Amid`>, request: number): Promise<void> {
    const world = this.#world;
    const { provider } = world;
    await world.advance(INTERVAL_SECONDS);
    // By the first request the cycle itself has begun, so the commits since then are lost.
    let requests = 0;
    let forgets = false;
    if (kind === "restoreAmid") await world.keep();
    // The poller takes a failure of the test for one of the provider, and goes on.
    let failure: unknown;
    const waiting = new Promise<void>((resolve) => {
      const happen = async () => {
        requests += 1;
        if (kind === "loseCommitsAmid" && requests === 1) await world.keep();
        if (requests !== request) return;
        resolve();
        if (kind === "killAmid") await new Promise(() => undefined);
        if (kind === "endLeaseAmid") return world.endLease();
        await world.restore();
        forgets = true;
      };
      provider.before = () => happen().catch((error: unknown) => void (failure = error));
    });
    const polled = this.#poller.runOnce();
    await Promise.race([polled, waiting]);
    if (kind !== "killAmid") await polled;
    assert.ifError(failure);
    provider.before = () => undefined;
    if (kind === "killAmid" && requests >= request) await this.#succeed();
    // The database no longer claims what it has forgotten, and records no breach of it.
    if (forgets) this.#look = undefined;
    await this.#judge();
  }

  /** The provider's orders, each with the digits of updatedAt that the mirror has seen. */
  #expected(): ReadonlyMap<string, Shown> {
    const served = this.#look?.served;
    const represented = [...this.#world.provider.truth()].map(([reference, state]) => {
      const stored = served?.get(reference);
      return [reference, stored !== undefined && isShown(state, stored) ? stored : state] as const;
    });
    return new Map(represented);
  }

  /** Whatever happened, at the end the mirror equals the provider. */
  async end(): Promise<void> {
    const world = this.#world;
    const { provider } = world;
    this.#keepsItsWord = false;
    provider.lagSeconds = 0;
    provider.clockErrorSeconds = 0;
    provider.heal();
    // Claims may be dated five minutes ahead.
    await world.advance(MARGIN_SECONDS + 600);
    await this.cycle();
    await world.requestVerification();
    const isOver = () => {
      const truth = provider.truth();
      const served = this.#look?.served ?? new Map();
      return (
        served.size === truth.size && [...truth].every(([one, state]) => isShown(state, served.get(one)))
      );
    };
    for (const wait of [...HEALING_WAITS, ...(this.#wentBack ? LOSS_WAITS : [])]) {
      if (isOver() && wait > 0) break;
      await world.advance(wait);
      await this.cycle();
    }
    await this.#poller.close();
    assert.deepEqual(this.#look?.served, this.#expected(), "the mirror is not as the provider");
    assert.deepEqual(await world.lookBeside(), this.#beside, "what was done to one source shows in another");
  }
}

/**
 * `PROOF_SCHEDULES` and `PROOF_SEED` choose the number of schedules and the first seed, from which the lanes count up. A
 * failure prints the schedule. `.ci/run` asks for 2,000.
 */
const SCHEDULES = Number(process.env["PROOF_SCHEDULES"] ?? 200);
const SEED = Number(process.env["PROOF_SEED"] ?? 20_261_122);
/** Test files that share the schedules, each in its own process with its own Postgres. */
const SHARES = 2;
const SHARE = Math.ceil(SCHEDULES / SHARES);
/** Schedules that run in parallel in one process, each with its own database and clock: one computes while another waits for Postgres. */
const LANES = Math.min(3, SHARE);

async function runSchedule(lane: Lane, as: Make, steps: readonly Step[]): Promise<void> {
  const world = await lane.begin(as);
  const run = new ScheduledRun(world);
  await run.begin();
  for (const one of steps) await run.take(one);
  await run.end();
}

async function runLane(number: number): Promise<void> {
  const lane = await openLane(`lane${number}`);
  try {
    await fc.assert(
      fc.asyncProperty(arbitraryMake, fc.array(arbitraryStep, { minLength: 3, maxLength: 12 }), (as, steps) =>
        runSchedule(lane, as, steps),
      ),
      { numRuns: Math.ceil(SHARE / LANES), seed: SEED + number, endOnFailure: true },
    );
  } finally {
    await lane.close();
  }
}

/** Runs one share, from 0 on, of random schedules: whole pollers over a real Postgres in virtual time. */
export function testSchedules(share: 0 | 1): void {
  it(`ends as the provider on share ${share} of ${SCHEDULES} schedules of seed ${SEED}, and never claims what is known to be false`, async () => {
    const first = share * LANES;
    const lanes = await Promise.allSettled(
      Array.from({ length: LANES }, (_, number) => runLane(first + number)),
    );
    for (const lane of lanes) if (lane.status === "rejected") throw lane.reason;
    expect(lanes).toHaveLength(LANES);
  });
}
