import { safeThrough } from "./safeThroughModel.ts";
import { addSeconds, floorTo, millisFromInstant } from "../../../src/domain/order/instant.ts";
import type { Instant } from "../../../src/domain/order/instant.ts";
import { decide, observeEvent, observeRead } from "../../../src/domain/order/observation.ts";
import type { OrderKey } from "../../../src/domain/order/observation.ts";
import type { Snapshot } from "../../../src/domain/order/order.ts";
import { nextRequest, receivePage, startWalk } from "../../../src/domain/window/walk.ts";
import type { WalkRequest } from "../../../src/domain/window/walk.ts";
import { BOUND_GRANULE, provableUntil } from "../../../src/domain/window/window.ts";
import type { Window } from "../../../src/domain/window/window.ts";
import { makeProviderClock } from "../../../src/provider/providerClock.ts";
import type { ProviderClock } from "../../../src/provider/providerClock.ts";
import { readAt } from "../mirror/orders.ts";
import { NastyProvider, seconds, START } from "../providers/nastyProvider.ts";
import type { ServedPage, ServedRow } from "../providers/nastyProvider.ts";
import type { NastyScenario } from "../providers/nastyScenarios.ts";
import { makeRandom } from "../faults/random.ts";

/** Of the head sweep; the margin is not much longer, so that a minute is as good as five. */
export const OVERLAP_SECONDS = 60;
const MARGIN_SECONDS = 64;
const OPEN_SECONDS = 3_600;
const INTERVAL_SECONDS = 30;
export const PAGE_LIMIT = 200;
const HISTORY_SINCE = addSeconds(START, -400);

export interface Scenario extends NastyScenario {
  /** Of our clock against the provider's. */
  readonly localSkewSeconds: number;
  /** Chance that the process dies, at each of its steps: a page asked for, applied, a window committed. */
  readonly crashShare: number;
  /** The process dies at this step, the first being 1; 0: at none. */
  readonly crashAtStep: number;
  /** How long an event or the answer to a single read may take until it is applied. */
  readonly answerSecondsMax: number;
}

/** The behaviour of a poller. Flawed pollers replace a part. */
export interface Rules {
  readonly read: (
    ask: (request: WalkRequest) => ServedPage,
    window: Window,
    open: boolean,
  ) => { readonly proved: boolean };
  readonly overlapSeconds: number;
  /** What makes a proof of a walked window: a head sweep without an end, one that ends with the present, or nothing. */
  readonly closing: "open" | "closed" | "none";
  readonly cursor: "window end" | "greatest updatedAt";
  readonly clock: "provider" | "local";
  readonly stamp: "request" | "write";
}

export interface Ending {
  /** Orders that differ from the provider after the quiet period, with live polls only. */
  readonly staleAfterPolls: string[];
  /** The same after one more proof sweep. */
  readonly stale: string[];
  /** Of all orders, those that differ after one margin and one more read of everything. */
  readonly different: string[];
  /** Orders whose change the poller had claimed without having it. */
  readonly falseClaims: string[];
  /** The mirror's claim does not reach the last sweep. */
  readonly gap: boolean;
  /** Writes of a second read of everything. */
  readonly secondWrites: number;
  readonly steps: number;
}

export const sound: Rules = {
  read: readByWalk,
  overlapSeconds: OVERLAP_SECONDS,
  closing: "open",
  cursor: "window end",
  clock: "provider",
  stamp: "request",
};

export function readByWalk(
  ask: (request: WalkRequest) => ServedPage,
  window: Window,
  open: boolean,
): { proved: boolean } {
  let walk = startWalk({ window, limit: PAGE_LIMIT, pagesMax: 5_000, open });
  for (let request = nextRequest(walk); request; request = nextRequest(walk)) {
    const page = ask(request);
    const rows = page.rows.map(({ reference, revision, updatedAt: version }) => ({
      key: `${reference}/${revision}`,
      version,
    }));
    walk = receivePage(walk, { ...page, rows });
  }
  return { proved: walk.outcome?.kind === "read" && walk.outcome.proved };
}

/** No clock of this world is wrong by more than a minute: horizons are never ahead of the present. */
const PRESENT: Instant = 2n ** 62n;

/** State that survives the death of the process. */
class SimulatedMirror {
  readonly keys = new Map<string, OrderKey>();
  readonly proved: Window[] = [];
  polledThrough: Instant = HISTORY_SINCE;
  greatest: Instant = HISTORY_SINCE;
  safeThrough: Instant = HISTORY_SINCE;
  writes = 0;

  apply(reference: string, key: OrderKey): void {
    const stored = this.keys.get(reference);
    const effect = decide(stored, key, PRESENT);
    if (effect === "none") return;
    this.keys.set(reference, key);
    // A later read of what was known moves the horizon and changes nothing else.
    if (effect !== "confirm" || stored?.settled !== true) this.writes += 1;
    if (key.version > this.greatest) this.greatest = key.version;
  }
}

class ProcessDied extends Error {
  override readonly name = "ProcessDied";
}

interface Travelling {
  readonly row: ServedRow;
  readonly isEvent: boolean;
  readonly at: Instant;
  readonly arrivesAt: Instant;
}

const snapshotOf = ({ reference, revision, updatedAt }: ServedRow): Snapshot =>
  // Only these parts of a snapshot determine the order of observations.
  ({ fields: { reference, status: "picked_up" }, version: updatedAt, hash: hashOf(revision) }) as Snapshot;

/** The order of hashes must not follow that of revisions. */
const hashOf = (revision: number) => String((revision * 7_919) % 10_007);

/** Polls a nasty provider through a scenario and the quiet after it, then sweeps once, then reads all again. */
export function simulatePolling(scenario: Scenario, rules: Rules = sound): Ending {
  const provider = new NastyProvider(scenario);
  const mirror = new SimulatedMirror();
  const random = makeRandom(scenario.seed + 1);
  const falseClaims = new Set<string>();
  let travelling: Travelling[] = [];
  let steps = 0;
  let mayDie = true;
  let clock = startClock();

  function startClock(): ProviderClock {
    const monotonicMs = () => Number(provider.now - START) / 1e6;
    const now = () => provider.now + seconds(scenario.localSkewSeconds);
    const started = makeProviderClock({ now, monotonicMs, sleep: () => Promise.resolve() });
    const date = new Date(millisFromInstant(provider.now)).toUTCString();
    if (rules.clock === "provider") {
      started.observe({ date, startedAtMs: monotonicMs(), receivedAtMs: monotonicMs() });
    }
    return started;
  }

  function step(): void {
    steps += 1;
    const dies = steps === scenario.crashAtStep || (mayDie && random() < scenario.crashShare);
    if (dies) throw new ProcessDied();
  }

  function seeRead(row: ServedRow, requestedAt: Instant): void {
    const { key } = observeRead({
      sourceId: "live",
      via: "poll",
      snapshot: snapshotOf(row),
      time: readAt(rules.stamp === "write" ? clock.providerNow() : requestedAt, MARGIN_SECONDS),
    });
    mirror.apply(row.reference, key);
  }

  function arrive(): void {
    const due = travelling.filter(({ arrivesAt }) => arrivesAt <= provider.now);
    travelling = travelling.filter(({ arrivesAt }) => arrivesAt > provider.now);
    for (const { row, isEvent, at } of due) {
      if (!isEvent) seeRead(row, at);
      else {
        const created = rules.stamp === "write" ? clock.providerNow() : at;
        const event = observeEvent({ sourceId: "live", snapshot: snapshotOf(row), created });
        mirror.apply(row.reference, event.key);
      }
    }
  }

  /** Sends an event of the last change, or an answer that shows it. */
  function send(): void {
    const row = provider.newest();
    if (row === undefined) return;
    const arrivesAt = provider.now + seconds(random() * scenario.answerSecondsMax);
    travelling.push({ row, isEvent: random() < 0.5, at: clock.providerNow(), arrivesAt });
  }

  function readWindow(window: Window, open = false): { proved: boolean } {
    const ask = (request: WalkRequest) => {
      const requestedAt = clock.providerNow();
      const page = provider.list(request);
      step();
      for (const row of page.rows) seeRead(row, requestedAt);
      arrive();
      step();
      return page;
    };
    return rules.read(ask, window, open);
  }

  /** Reads what is new, from `reach` on if that is earlier. */
  function pollHead(reach?: Instant): { proved: boolean } {
    const begunAt = clock.providerNow();
    const { polledThrough, greatest } = mirror;
    const last = polledThrough < begunAt ? polledThrough : begunAt;
    const from = rules.cursor === "window end" ? last : greatest;
    const fresh = floorTo(addSeconds(from, -rules.overlapSeconds), BOUND_GRANULE);
    const until = floorTo(addSeconds(begunAt, rules.closing === "closed" ? 0 : OPEN_SECONDS), BOUND_GRANULE);
    const since = reach !== undefined && reach < fresh ? reach : fresh;
    const result = readWindow({ since, until: until > since ? until : since + BOUND_GRANULE }, true);
    mirror.polledThrough = floorTo(begunAt, BOUND_GRANULE);
    step();
    return { proved: result.proved && (rules.closing === "closed" || clock.providerNow() < until) };
  }

  function sweepProof(): Instant {
    const until = provableUntil(clock.providerNow(), MARGIN_SECONDS);
    const window = { since: mirror.safeThrough, until };
    if (window.since >= until) return until;
    const isWalked = readWindow(window).proved;
    const isClosed = rules.closing === "none" || pollHead(until).proved;
    if (isWalked && isClosed) mirror.proved.push(window);
    mirror.safeThrough = safeThrough(mirror.safeThrough, mirror.proved);
    const claimed = mirror.safeThrough;
    for (const reference of listStale(claimed)) falseClaims.add(reference);
    for (const reference of provider.listChangedBefore(claimed))
      if (!mirror.keys.has(reference)) falseClaims.add(reference);
    step();
    return until;
  }

  function listDifferent(): string[] {
    const differs = ({ reference, revision }: { reference: string; revision: number }) =>
      mirror.keys.get(reference)?.hash !== hashOf(revision);
    return provider
      .visible()
      .filter(differs)
      .map(({ reference }) => reference);
  }

  function listStale(before?: Instant): string[] {
    return provider
      .visible()
      .filter(
        ({ stamp, reference }) =>
          !provider.wentBack.has(reference) && (before === undefined || stamp < before),
      )
      .filter(({ reference, revision }) => mirror.keys.get(reference)?.hash !== hashOf(revision))
      .map(({ reference }) => reference);
  }

  function surviving(work: () => void): void {
    try {
      work();
    } catch (error) {
      if (!(error instanceof ProcessDied)) throw error;
      provider.advance(random() * 20);
      clock = startClock();
    }
  }

  for (let cycle = 0; cycle < scenario.cycles; cycle += 1) {
    for (const burst of scenario.bursts) if (burst.cycle === cycle) provider.burst(burst.orders);
    const due = provider.now + seconds(INTERVAL_SECONDS);
    send();
    surviving(() => void pollHead());
    if (cycle % 3 === 2) surviving(() => void sweepProof());
    for (; provider.now < due; provider.advance(INTERVAL_SECONDS / 10)) {
      if (random() < 0.5) send();
      arrive();
    }
  }
  provider.calmDown();
  mayDie = false;
  const { lateSecondsMax, futureSecondsMax, skewSeconds, answerSecondsMax } = scenario;
  const quietSeconds = lateSecondsMax + futureSecondsMax + skewSeconds + answerSecondsMax;
  for (let waited = 0; waited <= quietSeconds + INTERVAL_SECONDS; waited += INTERVAL_SECONDS) {
    provider.advance(INTERVAL_SECONDS);
    arrive();
    surviving(() => void pollHead());
  }
  surviving(() => void pollHead());
  const staleAfterPolls = listStale();
  provider.advance(MARGIN_SECONDS + futureSecondsMax);
  let until = undefined as Instant | undefined;
  // A sweep during which the process died is repeated.
  for (let tries = 0; until === undefined && tries < 2; tries += 1) {
    surviving(() => void (until = sweepProof()));
  }
  const stale = listStale();
  // One margin later, a read decides every claim, also for orders whose updatedAt decreased.
  provider.advance(MARGIN_SECONDS);
  const everything = { since: HISTORY_SINCE, until: addSeconds(provider.now, futureSecondsMax) };
  let isRead = false;
  const readEverything = () =>
    surviving(() => {
      readWindow(everything);
      isRead = true;
    });
  for (let tries = 0; !isRead && tries < 2; tries += 1) readEverything();
  const different = listDifferent();
  const { writes } = mirror;
  readEverything();
  return {
    staleAfterPolls,
    stale,
    different,
    falseClaims: [...falseClaims],
    gap: until === undefined || mirror.safeThrough < until,
    secondWrites: mirror.writes - writes,
    steps,
  };
}
