import { queryInstants, type Pool } from "../../database/database.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { COUNT_MAX, describeCount, type Rule } from "./condition.ts";

/** Work of a source that waits here. */
export interface Backlog {
  readonly sourceId: string;
  /** Events without a decision. */
  readonly pending: number;
  readonly oldestPendingAt: Instant | null;
  /** Open quarantined input; counting stops at COUNT_MAX + 1, as it does for refetches. */
  readonly quarantined: number;
  readonly oldestQuarantinedAt: Instant | null;
  /** Orders that wait for a single read. */
  readonly refetches: number;
}

const BACKLOGS = `
with waiting as (
  select source_id, count(*)::int as pending, min(received_at) as oldest from mirror.pending
  where $1::text is null or source_id = $1 group by source_id
)
select s.source_id as "sourceId",
  coalesce(waiting.pending, 0) as pending, mirror.nanos_of(waiting.oldest) as "oldestPendingAt",
  (select count(*)::int from (select from mirror.quarantine q
    where q.source_id = s.source_id and q.state = 'open' limit ${COUNT_MAX + 1}) open) as quarantined,
  (select mirror.nanos_of(min(quarantined_at)) from mirror.quarantine q
    where q.source_id = s.source_id and q.state = 'open') as "oldestQuarantinedAt",
  (select count(*)::int from (select from mirror.awaited_reads r
    where r.source_id = s.source_id limit ${COUNT_MAX + 1}) asked) as refetches
from mirror.sources s left join waiting using (source_id)
where $1::text is null or s.source_id = $1`;

export function readBacklogs(pool: Pool, sourceId: string | null): Promise<Backlog[]> {
  return queryInstants<Backlog>(pool, { name: "read-backlogs", text: BACKLOGS }, [sourceId]);
}

/** Conditions of what waits here for a worker or a person. */
export const BACKLOG_CONDITIONS: readonly Rule<Backlog>[] = [
  {
    name: "OrderMirrorEventsWait",
    severity: "critical",
    area: "worker",
    place: "On our side",
    answer: "Events wait",
    measures: "an event has waited for 6 minutes: no worker applies it, or not fast enough",
    forSeconds: 360,
    noticedAfterSeconds: 30,
    remedy: "Start `order-mirror worker`, or restart the one that hangs, or start another; nothing is lost.",
    page: "/ops/waiting",
    holds: ({ oldestPendingAt }) => oldestPendingAt !== null,
    since: ({ oldestPendingAt }) => oldestPendingAt,
    cause: ({ sourceId, pending }) =>
      `${describeCount(pending, "event")} of ${sourceId} waiting. No worker is keeping up.`,
  },
  {
    name: "OrderMirrorQuarantine",
    severity: "warning",
    area: "quarantine",
    place: "Between us and the provider",
    answer: "Some stuck",
    measures: "events or reads could not be processed",
    remedy: "Review them on /ops/quarantine, fix the cause, then run `order-mirror replay --dry-run`.",
    page: "/ops/quarantine",
    holds: ({ quarantined }) => quarantined > 0,
    since: ({ oldestQuarantinedAt }) => oldestQuarantinedAt,
    cause: ({ sourceId, quarantined }) =>
      `${describeCount(quarantined, "event or read", "events or reads")} of ${sourceId} could not be processed.`,
  },
];
