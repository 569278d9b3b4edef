import { createHash } from "node:crypto";
import { isChange } from "../../apply/applySubjects.ts";
import type { Decision } from "../../apply/applySubjects.ts";
import type { Reads } from "../../apply/apply.ts";
import type { Queryable } from "../../database/database.ts";
import { NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { nextRequest, receivePage, startWalk } from "../../domain/window/walk.ts";
import type { Walk } from "../../domain/window/walk.ts";
import type { WalkRow } from "../../domain/window/scan.ts";
import type { Window } from "../../domain/window/window.ts";
import { failureOf } from "../../domain/source/errors.ts";
import type { ListedOrder, Priority, WindowPage } from "../../domain/source/orderSource.ts";
import type { PollDeps } from "./deps.ts";
import { WalkStalledError, WalkTooLargeError } from "./errors.ts";

/** A window that is being read. Reading may pause between two pages for any length of time. */
export interface Reading {
  readonly walk: Walk;
  /** Provider-clock instant at which the first page was requested, a lower bound; undefined before that. */
  readonly begunAt: Instant | undefined;
  readonly begunAtMs: number;
  /** What its pages showed and is not applied yet. */
  readonly unapplied: readonly Reads[];
  readonly counts: ReadCounts;
  /** References on its pages; null if it has so many pages that they are applied one by one. */
  readonly listed: readonly string[] | null;
}

export interface ReadCounts {
  readonly requests: number;
  /** Different orders, or states of orders, on the pages. */
  readonly orders: number;
  /** The number of them that changed the mirror. */
  readonly applied: number;
  /** Elements that could not be read as orders; they are in quarantine. */
  readonly unreadable: number;
}

/** What one transaction takes, and memory holds; a larger window is better read in parts. */
const PAGES_MAX = 30;
/** A window this short cannot be read in parts, so it may take as many pages as an import of a million orders. */
const INDIVISIBLE_NANOS = 2n * NANOS_PER_SECOND;
const INDIVISIBLE_PAGES_MAX = 5_000;

export const NOTHING_READ: ReadCounts = { requests: 0, orders: 0, applied: 0, unreadable: 0 };

export function startReading(
  window: Window,
  { limit, nowMs, open, pace }: { limit: number; nowMs: number; open: boolean; pace: PollDeps["pace"] },
): Reading {
  const divisible = window.until - window.since > INDIVISIBLE_NANOS;
  // Half a minute later, so many orders have left a window that its next page would hardly ever overlap this one.
  const pagesMax = !divisible ? INDIVISIBLE_PAGES_MAX : pace === "request" ? 1 : PAGES_MAX;
  return {
    walk: startWalk({ window, limit, pagesMax, open }),
    begunAt: undefined,
    begunAtMs: nowMs,
    unapplied: [],
    counts: NOTHING_READ,
    listed: [],
  };
}

interface ReadOptions {
  readonly via: "poll" | "backfill" | "verify";
  readonly priority: Priority;
  readonly signal: AbortSignal;
}

/** Reads the next page of a reading whose walk has no outcome yet; the caller applies what is new on it. */
export type ReadPage = (reading: Reading, options: ReadOptions) => Promise<Reading>;

/**
 * Makes a ReadPage that waits for its turn before each request: with the pace `request`, an interval after the last one.
 * It throws what the client throws, WalkTooLargeError and WalkStalledError; the reading passed to it stays valid.
 */
export function makeReadPage(
  deps: Pick<PollDeps, "source" | "client" | "clock" | "pace" | "intervalSeconds" | "marginSeconds">,
): ReadPage {
  const { client, clock } = deps;
  const gapMs = deps.pace === "request" ? deps.intervalSeconds * 1_000 : 0;
  let lastMs = Number.NEGATIVE_INFINITY;

  async function awaitTurn(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const waitMs = lastMs + gapMs - clock.monotonicMs();
    if (waitMs > 0) await clock.sleep(waitMs, signal);
    lastMs = clock.monotonicMs();
  }

  return async function readPage(reading, { via, priority, signal }) {
    const request = nextRequest(reading.walk);
    if (request === undefined) throw new TypeError("the window has been read");
    // Where every read counts, one that fails is repeated in the next turn, once: the sweep would begin again.
    const send = async (attemptsMax?: number) => {
      await awaitTurn(signal);
      return client.listWindow(request, { priority, signal, attemptsMax });
    };
    const sendAgain = (error: unknown) => {
      if (!isPassing(error)) throw error;
      return send(1);
    };
    const page = await (gapMs > 0 ? send(1).catch(sendAgain) : send());
    const walk = receivePage(reading.walk, {
      rows: page.elements.map(toRow),
      hasMore: page.hasMore,
      limit: page.limit,
    });
    assertWalks(walk);
    return addPage(reading, walk, toReads(deps, { page, fresh: walk.fresh, via }));
  };
}

function isPassing(error: unknown): boolean {
  const failure = failureOf(error);
  return failure === "timeout" || failure === "unavailable";
}

function toReads(
  { source, marginSeconds }: Pick<PollDeps, "source" | "marginSeconds">,
  { page, fresh, via }: { page: WindowPage; fresh: readonly number[]; via: Reads["via"] },
): Reads {
  const elements = fresh.flatMap((index) => page.elements[index] ?? []);
  return {
    sourceId: source.sourceId,
    via,
    snapshots: elements.flatMap((one) => (one.kind === "order" ? [one.snapshot] : [])),
    unreadable: elements.flatMap((one) => (one.kind === "unreadable" ? [one] : [])),
    time: { requestedAt: page.requestedAt, marginSeconds },
  };
}

function addPage(reading: Reading, walk: Walk, reads: Reads): Reading {
  const { counts, listed, unapplied } = reading;
  const { snapshots, unreadable = [] } = reads;
  const references = [
    ...snapshots.map(({ fields }) => fields.reference),
    ...unreadable.flatMap(({ reference }) => reference ?? []),
  ];
  return {
    ...reading,
    walk,
    begunAt: reading.begunAt ?? reads.time.requestedAt,
    unapplied: [...unapplied, reads],
    listed: listed === null || walk.pages > PAGES_MAX ? null : [...listed, ...references],
    counts: {
      ...counts,
      requests: counts.requests + 1,
      orders: counts.orders + snapshots.length,
      unreadable: counts.unreadable + unreadable.length,
    },
  };
}

/** Whether the reading has more pages than one transaction takes, so that each of them is applied by itself. */
export function isLong({ walk }: Reading): boolean {
  return walk.pages >= PAGES_MAX;
}

/** Applies what is not applied yet, together with `alongside`, which receives the decisions and the reading after them. */
export async function applyReading(
  { apply }: Pick<PollDeps, "apply">,
  reading: Reading,
  alongside: (client: Queryable, after: Reading, decisions: readonly Decision[]) => Promise<void>,
): Promise<Reading> {
  const advance = (decisions: readonly Decision[]): Reading => {
    const applied = reading.counts.applied + decisions.filter(isChange).length;
    return { ...reading, unapplied: [], counts: { ...reading.counts, applied } };
  };
  const decisions = await apply.applyReads(reading.unapplied, (client, decided) =>
    alongside(client, advance(decided), decided),
  );
  return advance(decisions);
}

/** Converts an element of a page to a row of a walk. */
function toRow(element: ListedOrder): WalkRow {
  if (element.kind === "unreadable") {
    const key = createHash("sha256").update(element.raw).digest("hex");
    return { key, version: undefined };
  }
  const { fields, hash, version } = element.snapshot;
  return { key: `${hash} ${fields.reference}`, version };
}

function assertWalks({ outcome }: Walk): void {
  if (outcome?.kind === "too_large") {
    throw new WalkTooLargeError("the window has more pages than one transaction takes");
  }
  if (outcome?.kind === "stalled") {
    throw new WalkStalledError("the provider says that there are more orders but does not list them");
  }
}
