import { TAIL_NEAR_SHARE } from "../domain/window/lateness.ts";

/** What alerts are judged by, of one source. Moments are seconds since 1970 of one clock; null where unknown. */
export interface AlertFacts {
  readonly sourceId: string;
  readonly now: number;
  readonly safeThrough: number | null;
  readonly lastCycleEndedAt: number | null;
  readonly lastError: string | null;
  readonly oldestPendingAt: number | null;
  readonly quarantined: number;
  readonly gaps: number;
  /** When a proof was last taken back. */
  readonly lastBreachAt: number | null;
  readonly lastEventAt: number | null;
  readonly lostSinceLastEvent: number;
  /** When the provider was last found to answer otherwise than before. */
  readonly traitChangedAt: number | null;
  readonly overlapSeconds: number | null;
  readonly lateTailSeconds: number | null;
}

/** A condition that people should be told of, without a monitoring system; the rules for one are in config/. */
export interface Alert {
  /** As in config/prometheus/alerts.yml. */
  readonly name: string;
  readonly severity: "warning" | "critical";
  /** How long it must hold before anybody is told. */
  readonly forSeconds: number;
  /** What to do. */
  readonly fix: string;
  readonly holds: (facts: AlertFacts) => boolean;
  readonly summarize: (facts: AlertFacts) => string;
}

const HOUR_SECONDS = 3_600;
const NOT_POLLED_SECONDS = 180;
const PENDING_SECONDS = 300;
const DAY_SECONDS = 86_400;
/** So many changes lost in a row, with no event for an hour, are not chance. */
const STOPPED_AFTER_LOST = 3;

const isOlder = (moment: number | null, now: number, seconds: number) =>
  moment !== null && now - moment > seconds;

export const ALERTS: readonly Alert[] = [
  {
    name: "OrderMirrorNotPolled",
    severity: "critical",
    forSeconds: 120,
    fix: "Start `order-mirror poller`, or look into its log.",
    holds: ({ lastCycleEndedAt, now }) => isOlder(lastCycleEndedAt, now, NOT_POLLED_SECONDS),
    summarize: ({ sourceId }) => `Source ${sourceId} is not polled any more.`,
  },
  {
    name: "OrderMirrorPollFailing",
    severity: "warning",
    forSeconds: 600,
    fix: "`order-mirror status` shows the trouble, `order-mirror doctor` tries the key and the provider.",
    holds: ({ lastError }) => lastError !== null,
    summarize: ({ sourceId }) => `Polling source ${sourceId} fails.`,
  },
  {
    name: "OrderMirrorIncomplete",
    severity: "warning",
    forSeconds: 300,
    fix: "`order-mirror doctor` names gaps and what keeps the poller from closing them.",
    holds: ({ safeThrough, now }) => isOlder(safeThrough, now, HOUR_SECONDS),
    summarize: ({ sourceId }) =>
      `Source ${sourceId} is proved to be complete only up to more than an hour ago.`,
  },
  {
    name: "OrderMirrorGaps",
    severity: "warning",
    forSeconds: 900,
    fix: "`order-mirror doctor` prints the `backfill` command that closes the oldest.",
    holds: ({ gaps }) => gaps > 0,
    summarize: ({ sourceId, gaps }) =>
      `Source ${sourceId} has ${gaps} ${gaps === 1 ? "span that was" : "spans that were"} never read for certain.`,
  },
  {
    name: "OrderMirrorProofTakenBack",
    severity: "warning",
    forSeconds: 0,
    fix: "The span is read again by itself; reporting.coverage_breaches names it, for whoever made reports of it.",
    holds: ({ lastBreachAt, now }) => lastBreachAt !== null && now - lastBreachAt <= DAY_SECONDS,
    summarize: ({ sourceId }) =>
      `A change of source ${sourceId} was found that a proof had missed; that proof was taken back.`,
  },
  {
    name: "OrderMirrorEventsWait",
    severity: "critical",
    forSeconds: 60,
    fix: "Start `order-mirror worker`, or restart the one that hangs; nothing is lost.",
    holds: ({ oldestPendingAt, now }) => isOlder(oldestPendingAt, now, PENDING_SECONDS),
    summarize: ({ sourceId }) => `An event of source ${sourceId} has waited for more than 5 minutes.`,
  },
  {
    name: "OrderMirrorQuarantine",
    severity: "warning",
    forSeconds: 0,
    fix: "Look at them on /ops, mend the cause, then `order-mirror replay --quarantine --dry-run`.",
    holds: ({ quarantined }) => quarantined > 0,
    summarize: ({ sourceId, quarantined }) =>
      `Source ${sourceId} has ${quarantined} in quarantine, which could not be applied.`,
  },
  {
    name: "OrderMirrorEventsStopped",
    severity: "critical",
    forSeconds: 300,
    fix: "Check the endpoint, its secret and the plan at the provider, then `order-mirror doctor --url https://your-host`.",
    holds: ({ lastEventAt, lostSinceLastEvent, now }) =>
      isOlder(lastEventAt, now, HOUR_SECONDS) && lostSinceLastEvent >= STOPPED_AFTER_LOST,
    summarize: ({ sourceId }) =>
      `Events of source ${sourceId} have stopped; changes are found by polling only.`,
  },
  {
    name: "OrderMirrorProviderChanged",
    severity: "warning",
    forSeconds: 0,
    fix: "`order-mirror doctor` says what changed. Polling copes with it; ask the provider whether it was meant.",
    holds: ({ traitChangedAt, now }) => traitChangedAt !== null && now - traitChangedAt <= DAY_SECONDS,
    summarize: ({ sourceId }) => `The provider of source ${sourceId} answers otherwise than before.`,
  },
  {
    name: "OrderMirrorLateArrivals",
    severity: "warning",
    forSeconds: 600,
    fix: "Set POLL_OVERLAP_SECONDS to twice that age; until then the delayed sweep finds what polls miss.",
    holds: ({ lateTailSeconds, overlapSeconds }) =>
      lateTailSeconds !== null &&
      overlapSeconds !== null &&
      lateTailSeconds > TAIL_NEAR_SHARE * overlapSeconds,
    summarize: ({ sourceId, lateTailSeconds, overlapSeconds }) =>
      `Changes of source ${sourceId} appear up to ${lateTailSeconds} s late, and polls reach back ${overlapSeconds} s.`,
  },
];
