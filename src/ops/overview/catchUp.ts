import { describeCount } from "../../health/condition.ts";
import type { OpenTask } from "../../health/opsFigures.sql.ts";
import { describeSpan, secondsSince } from "./phrases.ts";
import type { Overview, SourceView } from "./readOverview.ts";

/** What is left to do, and how long that takes at the present pace. */
export interface CatchUp {
  /** The parts of the backlog in words; empty: there is none. */
  readonly parts: readonly string[];
  /** Null: unknown. Infinity: more arrives than is done. 0: there is no backlog. */
  readonly seconds: number | null;
}

/** Younger events are in flight rather than a backlog. */
const BACKLOG_SECONDS = 10;
/** The delayed sweep proves what is a few minutes old; only what is older is behind. */
const BEHIND_SECONDS = 900;
/** Spec: the most orders on a page of the list. */
const PAGE_ORDERS = 200;
/** A poll takes at least this long until its period is proved. */
const POLL_SECONDS = 60;
const SHARE_MIN = 0.02;
const DAY_SECONDS = 86_400;
const ALLOWED_SECONDS = 600;

type Part = readonly [words: string, seconds: number | null];

export function estimateCatchUp(overview: Overview): CatchUp {
  const parts = [...listEvents(overview), ...overview.sources.flatMap(listReads)];
  const all = parts.map(([, seconds]) => seconds);
  const isNever = all.includes(Infinity);
  return {
    parts: parts.map(([words]) => words),
    // They are worked off next to each other.
    seconds: all.includes(null) && !isNever ? null : Math.max(0, ...all.map(Number)),
  };
}

function listEvents({ sources, now, pace }: Overview): Part[] {
  const waiting = sources.reduce((total, { standing }) => total + standing.pending, 0);
  const ages = sources.map(({ standing }) => secondsSince(now, standing.oldestPendingAt) ?? 0);
  if (Math.max(0, ...ages) < BACKLOG_SECONDS) return [];
  const net = pace.decidedPerSecond - pace.arrivingPerSecond;
  return [[describeCount(waiting, "event"), net > 0 ? waiting / net : Infinity]];
}

function listReads({ standing, listReads: { allowed }, tasks }: SourceView): Part[] {
  const { sourceId, now, safeThrough, historySince, announced, lost } = standing;
  const behind = secondsSince(now, safeThrough ?? historySince) ?? 0;
  const parts: Part[] = [];
  if (behind >= BEHIND_SECONDS) {
    const pages = (behind * (announced + lost)) / DAY_SECONDS / PAGE_ORDERS;
    const seconds = Math.max(POLL_SECONDS, pages / (allowed / ALLOWED_SECONDS));
    parts.push([`${describeSpan(behind)} of changes of ${sourceId}`, seconds]);
  }
  for (const task of tasks) parts.push([`${task.kind} ${task.id}`, task.running ? estimateLeft(task) : null]);
  return parts;
}

/** Seconds until a task is done; null while too little is done for an estimate. */
export function estimateLeft({ share, elapsedSeconds }: OpenTask): number | null {
  return share < SHARE_MIN ? null : (elapsedSeconds * (1 - share)) / share;
}
