import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { addSeconds, floorTo, type Instant } from "../../../src/domain/order/instant.ts";
import { nextRequest, receivePage, startWalk } from "../../../src/domain/window/walk.ts";
import { provableUntil, type Window } from "../../../src/domain/window/window.ts";
import { makeRandom, shuffle } from "../../support/faults/random.ts";

/**
 * How this provider differs from an ideal one, in seconds of its own clock: in any way. `full` has realistic pages and
 * load, `small` a tenth of that, so that thousands of runs are possible.
 */
function arbitraryBehaviour(extent: "small" | "full") {
  const isFull = extent === "full";
  return fc.record({
    seed: fc.nat(),
    /** `byReference` and `byReferenceDown` are orders of creation, `shuffled` is another one at every request. */
    sort: fc.constantFrom("ascending", "descending", "byReference", "byReferenceDown", "shuffled"),
    /** Orders of one timestamp: always in the same order, or in another one at every request. */
    ties: fc.constantFrom("stable", "random"),
    sinceInclusive: fc.boolean(),
    untilInclusive: fc.boolean(),
    /** It truncates requested bounds to whole seconds. */
    cutsBounds: fc.boolean(),
    /** Resolution of the timestamps that it shows, in nanoseconds. */
    granule: fc.constantFrom(1_000_000_000n, 1_000_000n, 1_000n),
    /** It stores, filters and sorts by microseconds, and truncates them only in answers. */
    keepsFiner: fc.boolean(),
    requestSeconds: fc.constantFrom(0.05, 0.5, 2),
    /** Share of changes that become visible only later, and by how much at most. */
    lateShare: fc.constantFrom(0, 0.03, 0.3),
    lateSecondsMax: fc.constantFrom(1, 20, 58),
    /** Share of changes stamped in the future, and by how much at most. */
    futureShare: fc.constantFrom(0, 0.02),
    futureSecondsMax: fc.constantFrom(0, 100),
    /** Machines whose clocks are wrong by up to this, in either direction. */
    skewSeconds: fc.constantFrom(0, 2),
    /** What shows that there is more: `hasMore`, the limit that it used, or both. */
    tells: fc.constantFrom("both", "hasMore", "limit"),
    /** Share of the orders that it shows without a readable time. */
    unreadableShare: fc.constantFrom(0, 0, 0.1, 1),
    /** It lowers the limit to this. */
    limitMax: isFull ? fc.constantFrom(100, 200) : fc.constantFrom(10, 20),
    orders: isFull ? fc.constantFrom<number>(500, 2_000) : fc.constantFrom<number>(15, 60, 200),
    updatesPerSecond: isFull ? fc.constantFrom(0, 2, 20, 200) : fc.constantFrom(0, 0.2, 2, 20),
  });
}
type NastyBehaviour = Drawn<ReturnType<typeof arbitraryBehaviour>>;
type Drawn<Arbitrary> = Arbitrary extends fc.Arbitrary<infer One> ? One : never;

interface Row {
  readonly reference: string;
  readonly place: number;
  readonly stamp: Instant;
  readonly revision: number;
}

const START: Instant = 1_790_000_000n * 1_000_000_000n;
const MICRO = 1_000n;

/** A pure replacement for the provider in its own time: only `advance` and `list` make anything happen. */
class NastyProvider {
  readonly #behaviour: NastyBehaviour;
  readonly #rows: Row[];
  #late: { row: Row; visibleAt: Instant }[] = [];
  readonly #busy = new Set<number>();
  readonly #random: () => number;
  readonly #unreadable: ReadonlySet<string>;
  #now: Instant = START;
  #owed = 0;
  #quiet = false;
  requests = 0;
  /** Orders whose timestamp was once later than it is now: sorting by timestamps cannot follow those. */
  readonly wentBack = new Set<string>();

  constructor(behaviour: NastyBehaviour) {
    this.#behaviour = behaviour;
    this.#random = makeRandom(behaviour.seed);
    // The orders are some minutes old, the last ones first touched a moment ago.
    this.#rows = Array.from({ length: behaviour.orders }, (_, place) => ({
      reference: `R${place}`,
      place,
      stamp: this.#keep(START - seconds(120 * (1 - place / behaviour.orders)) - seconds(10)),
      revision: 1,
    }));
    const references = this.#rows.map(({ reference }) => reference);
    this.#unreadable = new Set(references.filter(() => this.#random() < behaviour.unreadableShare));
  }

  get now(): Instant {
    return this.#now;
  }

  /** What a client can know about the time: the `Date` header has whole seconds, so up to a second may have passed. */
  get providerNow(): Instant {
    return floorTo(this.#now, 1_000_000_000n) - 1_000_000_000n;
  }

  /** From now on nothing changes, except what is already late. */
  calmDown(): void {
    this.#quiet = true;
  }

  advance(spanSeconds: number): void {
    const until = this.#now + seconds(spanSeconds);
    if (!this.#quiet) this.#owed += spanSeconds * this.#behaviour.updatesPerSecond;
    const updates = Math.floor(this.#owed);
    this.#owed -= updates;
    const step = (until - this.#now) / BigInt(updates + 1);
    for (let update = 0; update < updates; update += 1) {
      this.#now += step;
      this.#settleLate();
      this.#update(Math.floor(this.#random() * this.#rows.length), this.#stampNow());
    }
    this.#now = until;
    this.#settleLate();
  }

  /** `count` orders get one and the same timestamp, or timestamps spread over the last `spreadSeconds`. */
  burst(count: number, spreadSeconds = 0): void {
    const start = Math.floor(this.#random() * this.#rows.length);
    const orders = Math.min(count, this.#rows.length);
    for (let nth = 0; nth < orders; nth += 1) {
      const stamp = this.#keep(this.#now - seconds(spreadSeconds * (1 - nth / orders)));
      this.#update((start + nth) % this.#rows.length, stamp);
    }
  }

  /** One order gets the timestamp of `agoSeconds` ago. */
  change(place: number, agoSeconds = 0): void {
    this.#update(place, this.#keep(this.#now - seconds(agoSeconds)));
  }

  list(query: { since: Instant; until: Instant; limit: number; offset: number }) {
    this.advance(this.#behaviour.requestSeconds);
    this.requests += 1;
    const { sinceInclusive, untilInclusive, cutsBounds, limitMax, granule, tells } = this.#behaviour;
    const limit = Math.min(query.limit, limitMax);
    const [since, until] = cutsBounds
      ? [floorTo(query.since, seconds(1)), floorTo(query.until, seconds(1))]
      : [query.since, query.until];
    const first = sinceInclusive ? since : since + 1n;
    const end = untilInclusive ? until + 1n : until;
    const inside = this.#rows.filter(({ stamp }) => stamp >= first && stamp < end);
    const page = this.#sorted(inside).slice(query.offset, query.offset + limit);
    return {
      rows: page.map(({ reference, revision, stamp }) => ({
        reference,
        revision,
        updatedAt: this.#unreadable.has(reference) ? undefined : floorTo(stamp, granule),
      })),
      hasMore: tells !== "limit" && query.offset + page.length < inside.length,
      limit: tells === "hasMore" ? query.limit : limit,
    };
  }

  /** Everything that is visible now. */
  visible(): { reference: string; revision: number; stamp: Instant }[] {
    return this.#rows.map(({ reference, revision, stamp }) => ({ reference, revision, stamp }));
  }

  #sorted(rows: Row[]): Row[] {
    const { sort, ties } = this.#behaviour;
    if (sort === "byReference") return rows;
    if (sort === "byReferenceDown") return rows.toReversed();
    if (sort === "shuffled" || ties === "random") shuffle(rows, this.#random);
    if (sort === "shuffled") return rows;
    const sign = sort === "ascending" ? 1 : -1;
    return rows.sort((left, right) =>
      left.stamp === right.stamp ? 0 : left.stamp < right.stamp ? -sign : sign,
    );
  }

  #stampNow(): Instant {
    const { futureShare, futureSecondsMax, skewSeconds } = this.#behaviour;
    const future = this.#random() < futureShare ? this.#random() * futureSecondsMax : 0;
    const skew = (this.#random() * 2 - 1) * skewSeconds;
    return this.#keep(this.#now + seconds(future + skew));
  }

  #keep(stamp: Instant): Instant {
    return floorTo(stamp, this.#behaviour.keepsFiner ? MICRO : this.#behaviour.granule);
  }

  #update(place: number, stamp: Instant): void {
    const old = this.#rows[place];
    // A transaction that has not committed holds its row.
    if (old === undefined || this.#busy.has(place)) return;
    const { reference } = old;
    const row = { reference, place, stamp, revision: old.revision + 1 };
    if (stamp < old.stamp) this.wentBack.add(reference);
    if (this.#random() >= this.#behaviour.lateShare) {
      this.#rows[place] = row;
      return;
    }
    this.#busy.add(place);
    this.#late.push({ row, visibleAt: this.#now + seconds(this.#random() * this.#behaviour.lateSecondsMax) });
  }

  #settleLate(): void {
    if (this.#late.length === 0) return;
    const due = this.#late.filter(({ visibleAt }) => visibleAt <= this.#now);
    if (due.length === 0) return;
    this.#late = this.#late.filter(({ visibleAt }) => visibleAt > this.#now);
    for (const { row } of due) {
      this.#rows[row.place] = row;
      this.#busy.delete(row.place);
    }
  }
}

function seconds(count: number): bigint {
  return BigInt(Math.round(count * 1e6)) * MICRO;
}

const LIMIT = 200;
const MARGIN_SECONDS = 5;
const SEED = 20_261_120;
/** Drawn cases; three times as many in the long form. */
const runs = (count: number) => (process.env["TEST_LONG"] === "1" ? 3 * count : count);

const nameState = ({ reference, revision }: { reference: string; revision: number }) =>
  `${reference}/${revision}`;

/**
 * The greatest revision of each order that a walk over the window shows, the orders that it missed although they stayed
 * there, and whether it knows that it missed nothing.
 */
function walk(
  provider: NastyProvider,
  window: Window,
  { open = false, beforeRequest = () => undefined }: { open?: boolean; beforeRequest?: () => void } = {},
) {
  const seen = new Map<string, number>();
  const before = new Set(provider.visible().map(nameState));
  let state = startWalk({ window, limit: LIMIT, pagesMax: open ? 500 : 5_000, open });
  for (let request = nextRequest(state); request; request = nextRequest(state)) {
    beforeRequest();
    const page = provider.list(request);
    const rows = page.rows.map((row) => ({ key: nameState(row), version: row.updatedAt }));
    state = receivePage(state, { ...page, rows });
    for (const index of state.fresh) {
      const { reference, revision } = page.rows[index]!;
      seen.set(reference, Math.max(revision, seen.get(reference) ?? 0));
    }
  }
  const { outcome } = state;
  const missed = provider
    .visible()
    .filter(({ stamp }) => stamp >= window.since && stamp < window.until)
    .filter((row) => before.has(nameState(row)) && (seen.get(row.reference) ?? 0) < row.revision);
  return { seen, missed, kind: outcome?.kind, proved: outcome?.kind === "read" && outcome.proved };
}

/** A provider with a past, that may change no more, and the end of a window up to 150 s ago. */
const scene = fc.record({
  behaviour: fc.oneof(
    { arbitrary: arbitraryBehaviour("small"), weight: 30 },
    { arbitrary: arbitraryBehaviour("full"), weight: 1 },
  ),
  bursts: fc.array(fc.record({ tenths: fc.nat(9), spreadSeconds: fc.constantFrom(0, 0.9) }), {
    maxLength: 2,
  }),
  agoSeconds: fc.oneof(fc.nat(10), fc.nat(150)),
  spanSeconds: fc.integer({ min: 1, max: 150 }),
  isQuiet: fc.boolean(),
});

function begin({ behaviour, bursts, isQuiet }: Drawn<typeof scene>) {
  const provider = new NastyProvider(behaviour);
  provider.advance(10);
  for (const { tenths, spreadSeconds } of bursts)
    provider.burst((behaviour.orders * tenths) / 10, spreadSeconds);
  provider.advance(10);
  if (isQuiet) provider.calmDown();
  provider.advance(behaviour.lateSecondsMax);
  return provider;
}

describe("a walk over the pages of a nasty provider", () => {
  it("shows every order that stays in the window while it is proved, with any sort, ties, bounds, lateness and load", () => {
    fc.assert(
      fc.property(scene, (drawn) => {
        const provider = begin(drawn);
        const end = provableUntil(provider.providerNow, MARGIN_SECONDS);
        const until = addSeconds(end, -drawn.agoSeconds);
        const window = { since: addSeconds(until, -drawn.spanSeconds), until };
        const { missed, kind, proved } = walk(provider, window);
        expect(kind).toBe("read");
        expect(proved ? missed : []).toEqual([]);
        // A walk may be unproved, but never while nothing changes.
        expect(proved || !drawn.isQuiet).toBe(true);
      }),
      { numRuns: runs(500), seed: SEED },
    );
  });

  it("shows every order that was there when it began, if the window has no end and it is proved", () => {
    fc.assert(
      fc.property(scene, (drawn) => {
        const provider = begin(drawn);
        const since = addSeconds(provider.providerNow, -drawn.spanSeconds - MARGIN_SECONDS);
        const window = { since, until: addSeconds(provider.providerNow, 3_600) };
        const before = provider.visible().filter(({ stamp }) => stamp >= since && stamp < window.until);
        // A list that grows as fast as it is read has no end, and nothing is proved.
        const { seen, proved } = walk(provider, window, { open: true });
        const missed = before.filter(
          ({ reference, revision }) =>
            !provider.wentBack.has(reference) && (seen.get(reference) ?? 0) < revision,
        );
        expect(proved ? missed : []).toEqual([]);
        expect(proved || !drawn.isQuiet).toBe(true);
      }),
      { numRuns: runs(330), seed: SEED },
    );
  });

  it("does not prove a list that only looks sorted while as many rows leave it as it hides", () => {
    const steady = { orders: 60, limitMax: 10, updatesPerSecond: 0, lateShare: 0 } as const;
    fc.assert(
      fc.property(
        arbitraryBehaviour("small"),
        fc.constantFrom("byReference", "byReferenceDown"),
        fc.integer({ min: 1, max: 6 }),
        fc.integer({ min: 1, max: 6 }),
        (drawn, sort, changed, leaving) => {
          const behaviour: NastyBehaviour = { ...drawn, ...steady, sort };
          const provider = new NastyProvider(behaviour);
          // Some old orders change in the middle of the window, so that they are at the wrong end of the list.
          for (let nth = 0; nth < changed; nth += 1) provider.change(nth, 60);
          provider.advance(10);
          const window = { since: addSeconds(START, -400), until: START };
          const { missed, proved } = walk(provider, window, {
            beforeRequest() {
              const left = provider.requests - 2;
              if (left >= 0 && left < leaving) provider.change(behaviour.orders - 1 - left);
            },
          });
          expect(proved ? missed : []).toEqual([]);
        },
      ),
      { numRuns: runs(100), seed: SEED },
    );
  });

  it("does not prove equal times that come in another sequence each time before all of them were shown", () => {
    const steady = { updatesPerSecond: 0, lateShare: 0, limitMax: 10, ties: "random" } as const;
    fc.assert(
      fc.property(arbitraryBehaviour("small"), fc.constantFrom(15, 25), (drawn, orders) => {
        const provider = new NastyProvider({ ...drawn, ...steady, orders });
        provider.burst(orders);
        provider.advance(10);
        const { seen, proved } = walk(provider, {
          since: addSeconds(START, -400),
          until: addSeconds(START, 5),
        });
        expect(proved ? seen.size : orders).toBe(orders);
      }),
      { numRuns: runs(100), seed: SEED },
    );
  });
});
