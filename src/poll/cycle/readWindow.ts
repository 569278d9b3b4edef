import { createHash } from "node:crypto";
import { isChange } from "../../apply/applySubjects.ts";
import type { Decision } from "../../apply/applySubjects.ts";
import type { Queryable } from "../../database/database.ts";
import { addFigures } from "../../domain/figures.ts";
import { NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { Snapshot } from "../../domain/order/order.ts";
import { nextRequest, receivePage, startWalk } from "../../domain/window/walk.ts";
import type { WalkRow } from "../../domain/window/scan.ts";
import type { Walk } from "../../domain/window/walk.ts";
import type { Window } from "../../domain/window/window.ts";
import type { ListedOrder, Priority } from "../../domain/source/orderSource.ts";
import type { PollDeps } from "./deps.ts";
import { readTime } from "./readTime.ts";

/** A window that is being read. Plain data: reading may pause between two pages for any length of time. */
export interface Reading {
  readonly walk: Walk;
  /** Provider-clock instant at which the first page was requested, a lower bound; undefined before that. */
  readonly begunAt: Instant | undefined;
  readonly begunAtMs: number;
  readonly counts: ReadCounts;
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

/** A page as shown, for measuring the provider. */
export interface ShownPage {
  readonly requestedAt: Instant;
  readonly rows: readonly ShownRow[];
  readonly hasMore: boolean;
  /** The source's statement about its rate limits for lists. */
  readonly rate: string;
}

interface ShownRow extends WalkRow {
  /** Undefined, like the version, for an element that could not be read as an order. */
  readonly reference: string | undefined;
}

/** The new orders of a page, with the decisions on them. */
export interface AppliedPage {
  readonly snapshots: readonly Snapshot[];
  readonly decisions: readonly Decision[];
}

type KeepReading = (client: Queryable, after: Reading, decisions: readonly Decision[]) => Promise<void>;

interface ReadOptions {
  readonly via: "poll" | "backfill" | "verify";
  readonly priority: Priority;
  /** Decide on the page without writing. */
  readonly rehearses?: boolean | undefined;
  /** Called with each page after it was applied. */
  readonly notePage?: ((page: AppliedPage) => void) | undefined;
  /** Stores the reading's progress with this page, in the transaction that applies the page. */
  readonly keep?: KeepReading | undefined;
  readonly signal: AbortSignal;
}

/** Reads the next page of a reading whose walk has no outcome yet, and applies what is new on it. */
export type ReadPage = (reading: Reading, options: ReadOptions) => Promise<Reading>;

/** About five minutes of the list rate; a larger window is better read and committed in parts. */
const PAGES_MAX = 500;
/** A window this short cannot be read in parts, so it may take as many pages as an import of a million orders. */
const INDIVISIBLE_NANOS = 2n * NANOS_PER_SECOND;
const INDIVISIBLE_PAGES_MAX = 5_000;

export const NOTHING_READ: ReadCounts = { requests: 0, orders: 0, applied: 0, unreadable: 0 };

export function startReading(window: Window, { limit, nowMs }: { limit: number; nowMs: number }): Reading {
  const divisible = window.until - window.since > INDIVISIBLE_NANOS;
  const pagesMax = divisible ? PAGES_MAX : INDIVISIBLE_PAGES_MAX;
  return {
    walk: startWalk({ window, limit, pagesMax }),
    begunAt: undefined,
    begunAtMs: nowMs,
    counts: NOTHING_READ,
  };
}

/**
 * Makes a ReadPage that waits for `awaitTurn` before each request. It throws what the client and apply throw; the
 * reading passed to it stays valid and can be retried, because applying is idempotent.
 */
export function makeReadPage(
  deps: Pick<PollDeps, "source" | "client" | "apply" | "settleSeconds" | "horizonSeconds">,
  awaitTurn: (signal: AbortSignal) => Promise<void>,
  showPage?: (page: ShownPage) => void,
): ReadPage {
  const { client, apply } = deps;
  const { sourceId } = deps.source;

  return async function readPage(reading, { via, priority, rehearses, notePage, keep, signal }) {
    const request = nextRequest(reading.walk);
    if (request === undefined) throw new TypeError("the window has been read");
    await awaitTurn(signal);
    const page = await client.listWindow(request, { priority, signal });
    const { elements, hasMore, rate } = page;
    const rows = elements.map(toRow);
    const walk = receivePage(reading.walk, { rows, hasMore, limit: page.limit });
    showPage?.({ requestedAt: page.requestedAt, rows, hasMore, rate });
    const fresh = walk.fresh.flatMap((index) => elements[index] ?? []);
    const snapshots = fresh.flatMap((one) => (one.kind === "order" ? [one.snapshot] : []));
    const unreadable = fresh.flatMap((one) => (one.kind === "unreadable" ? [one] : []));
    const { requestedAt } = page;
    const reads = { sourceId, via, snapshots, unreadable, time: readTime(deps, requestedAt), rehearses };
    const advance = (decisions: AppliedPage["decisions"]): Reading => ({
      ...reading,
      walk,
      begunAt: reading.begunAt ?? requestedAt,
      counts: addFigures(reading.counts, {
        requests: 1,
        orders: snapshots.length,
        applied: decisions.filter(isChange).length,
        unreadable: unreadable.length,
      }),
    });
    const decisions = await apply.applyReads(
      reads,
      keep && ((client, decided) => keep(client, advance(decided), decided)),
    );
    notePage?.({ snapshots, decisions });
    return advance(decisions);
  };
}

/** Converts an element of a page to a row of a walk. */
function toRow(element: ListedOrder): ShownRow {
  if (element.kind === "unreadable") {
    const key = createHash("sha256").update(element.raw).digest("hex");
    return { key, version: undefined, reference: undefined };
  }
  const { fields, hash, version } = element.snapshot;
  return { key: `${hash} ${fields.reference}`, version, reference: fields.reference };
}
