import { leavesClaim } from "../../apply/applySubjects.ts";
import type { Decision } from "../../apply/applySubjects.ts";
import type { Queryable } from "../../database/database.ts";
import { addSeconds } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { decodeWalk, encodeWalk } from "../../domain/window/walkState.ts";
import type { Window } from "../../domain/window/window.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { NOTHING_READ } from "../cycle/readWindow.ts";
import type { Reading } from "../cycle/readWindow.ts";
import type { Term } from "../leader/leadership.ts";
import { commitWindow } from "../ledger/coverage.sql.ts";
import type { CoverageProgress } from "../ledger/coverage.sql.ts";
import { requestUnconfirmed } from "../ledger/refetches.sql.ts";
import { advanceWalk, beginWalk, forgetWalk, loadWalk } from "../ledger/walks.sql.ts";
import type { WalkKey } from "../ledger/walks.sql.ts";
import { lateSeconds } from "./sweeps.ts";
import type { Sweep } from "./sweeps.ts";

export interface CommittedWindow {
  readonly window: Window;
  readonly progress: CoverageProgress;
  /** Every order of the window was certainly on a page. */
  readonly whole: boolean;
  /** The walk also began late enough to prove the window, by a clock that can be trusted. */
  readonly proved: boolean;
  /** The provider's time at which its first page was requested, a lower bound. */
  readonly begunAt: Instant;
}

/** Stores a sweep's walk in the database, so that a database that loses its pages also loses its progress. */
export interface WalkStore {
  /** The window that was left half read; undefined if there is none that this sweep can continue. */
  load(term: Term): Promise<Reading | undefined>;
  /**
   * Records the page that led from `before` to `after`, in the transaction of its rows. The last page of a window
   * commits the window, which is returned. Throws LeaseLostError, or WalkForgottenError if the database does not know
   * the earlier pages.
   */
  save(client: Queryable, page: WalkedPage): Promise<CommittedWindow | undefined>;
}

interface WalkedPage {
  readonly before: Reading;
  readonly after: Reading;
  /** The decisions on the page's orders. */
  readonly decisions: readonly Decision[];
  readonly term: Term;
}

type WalkStoreDeps = Pick<
  PollDeps,
  "source" | "client" | "pool" | "clock" | "settleSeconds" | "overlapSeconds"
>;

export function makeWalkStore(deps: WalkStoreDeps, sweep: Sweep): WalkStore {
  const { pool, clock } = deps;
  const key: WalkKey = { sourceId: deps.source.sourceId, sweep: sweep.name };

  async function load(term: Term): Promise<Reading | undefined> {
    const stored = await loadWalk(pool, key);
    const walk = stored && decodeWalk(stored.state, stored.pages);
    if (stored === undefined || walk === undefined) return undefined;
    if ((await sweep.resume?.(walk.window, term)) === false) return undefined;
    return {
      walk,
      begunAt: stored.begunAt,
      begunAtMs: clock.monotonicMs() - stored.elapsedMs,
      counts: { ...NOTHING_READ, requests: stored.step, orders: stored.orders },
    };
  }

  async function save(client: Queryable, page: WalkedPage): Promise<CommittedWindow | undefined> {
    const { before, after } = page;
    const { lease } = page.term;
    const { walk, begunAt } = after;
    if (begunAt === undefined) throw new TypeError("a reading without a page cannot be kept");
    await requestUnconfirmed(client, { ...key, references: listContradicted(sweep, page) });
    const pagesBefore = before.walk.pages;
    if (walk.outcome === undefined) {
      const place = { ...key, window: walk.window, begunAt };
      const progress = { ...place, step: walk.pages, orders: after.counts.orders, state: encodeWalk(walk) };
      const keys = walk.seen.count > before.walk.seen.count ? [...walk.seen.newest] : [];
      await (pagesBefore === 0 ? beginWalk : advanceWalk)(client, lease, { progress, keys });
      return undefined;
    }
    if (walk.outcome.kind === "read") return commit(client, { ...page, begunAt });
    await forgetWalk(client, lease, key);
    return undefined;
  }

  async function commit(
    client: Queryable,
    { before, after, begunAt, term }: WalkedPage & { begunAt: Instant },
  ): Promise<CommittedWindow> {
    const { window, proved: whole } = after.walk;
    const { requests, orders } = after.counts;
    const isLate = (seconds: number) => begunAt >= addSeconds(window.until, seconds);
    const clocksAgree = deps.client.providerClock.disagreementSeconds() === null;
    const proved = whole && sweep.proves && clocksAgree && isLate(lateSeconds(deps));
    const progress = await commitWindow(client, term.lease, {
      ...window,
      ...key,
      proved,
      // A window that extends beyond the time of its reading, because the answer set the clock back, would move the
      // cursor past changes that are still to come.
      movesCursor: sweep.movesCursor && isLate(0),
      margins: { settleSeconds: deps.settleSeconds, overlapSeconds: deps.overlapSeconds },
      begunAt,
      requests,
      orders,
      durationMs: Math.max(0, Math.round(clock.monotonicMs() - after.begunAtMs)),
      pagesBefore: before.walk.pages,
      // A comparison itself reads what its pages did not show.
      confirmsClaims: sweep.name !== "verify",
    });
    return { window, progress, whole, proved, begunAt };
  }

  return { load, save };
}

/**
 * Orders that the mirror has in a later state of the window than the page showed: one of the two is wrong. Also for a
 * window that proves nothing: the one that does may begin after the older state, and then shows nothing of the order.
 */
function listContradicted(sweep: Sweep, { after, decisions }: WalkedPage): string[] {
  if (sweep.rehearses === true) return [];
  const { until } = after.walk.window;
  return decisions
    .filter((decision) => leavesClaim(decision) && decision.storedVersion < until)
    .flatMap(({ reference }) => reference ?? []);
}
