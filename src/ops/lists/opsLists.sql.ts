import { LATELY } from "../../health/opsFigures.sql.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { bothWays } from "../../database/keyset.sql.ts";
import type { Sorts } from "../../database/keyset.sql.ts";
import { readRows } from "./list.ts";
import type { Listed } from "./list.ts";

/** A change without an event that should have announced it. */
export interface LostEvent extends Listed {
  readonly sourceId: string;
  readonly reference: string;
  readonly status: string;
  readonly via: string;
  /** `waiting`: its event may still arrive. */
  readonly state: "waiting" | "lost";
  readonly foundAt: Instant;
  /** From the change to the read that found it. */
  readonly delaySeconds: number;
}

const LOST_DELAY = "extract(epoch from u.found_at) - u.version / 1000000000.0";
const LOST_NAME = [
  ["u.source_id", "text"],
  ["u.reference", "text"],
  ["u.version", "bigint"],
] as const;
const LOST_SORTS: Sorts = {
  ...bothWays([["u.found_at", "timestamptz"], ...LOST_NAME], ["newest", "oldest"]),
  delay: { keys: [[LOST_DELAY, "numeric"], ...LOST_NAME], descending: true },
};

/** Changes that reads of the last 24 h found and no event announced. */
export const LOST_ROWS = readRows<LostEvent>(
  LOST_SORTS,
  ["state"],
  ({ position, condition, order }) =>
    `select ${position} as position, u.source_id as "sourceId", u.reference, u.status, u.via, u.state,
       mirror.nanos_of(u.found_at) as "foundAt", (${LOST_DELAY})::float8 as "delaySeconds"
     from mirror.sources s cross join lateral (
       select * from mirror.unannounced_changes u
       where u.source_id = s.source_id and u.state in ('waiting', 'lost') and ($4::text is null or u.state = $4)
         and u.found_at > clock_timestamp() - interval '1 day' and ${condition}
       ${order} limit $2
     ) u
     where $1::text is null or s.source_id = $1 ${order} limit $2`,
);

/** An event that awaits its decision. */
export interface WaitingEvent extends Listed {
  readonly sourceId: string;
  readonly eventId: string;
  readonly receivedAt: Instant;
  readonly ageSeconds: number;
}

const WAITING_SORTS = bothWays([["p.seq", "bigint"]], ["newest", "oldest"]);

/** Events without a decision. */
export const WAITING_ROWS = readRows<WaitingEvent>(
  WAITING_SORTS,
  [],
  ({ position, condition, order }) =>
    `select ${position} as position, p.source_id as "sourceId", i.event_id as "eventId",
       mirror.nanos_of(p.received_at) as "receivedAt",
       extract(epoch from clock_timestamp() - p.received_at)::float8 as "ageSeconds"
     from (
       select * from mirror.pending p where ($1::text is null or p.source_id = $1) and ${condition} ${order} limit $2
     ) p join mirror.inbox i using (seq) ${order}`,
);

/** An order waiting for a re-read. */
export interface WaitingRefetch extends Listed {
  readonly sourceId: string;
  readonly reference: string;
  readonly reason: string;
  readonly attempts: number;
  /** Null if the last read did not fail. */
  readonly lastError: string | null;
  readonly requestedAt: Instant;
  readonly nextAttemptAt: Instant;
}

const REFETCH_SORTS = bothWays(
  [
    ["next_attempt_at", "timestamptz"],
    ["source_id", "text"],
    ["reference", "text"],
  ],
  ["last", "next"],
);

/** "next": in the order in which the poller processes them. */
export const REFETCH_ROWS = readRows<WaitingRefetch>(
  REFETCH_SORTS,
  ["state"],
  ({ position, condition, order }) =>
    `select ${position} as position, source_id as "sourceId", reference, reason, attempts, last_error as "lastError",
       mirror.nanos_of(requested_at) as "requestedAt", mirror.nanos_of(next_attempt_at) as "nextAttemptAt"
     from mirror.refetches where ($1::text is null or source_id = $1) and ${condition}
       and ($4::text is null or ($4 = 'failed') = (last_error is not null))
     ${order} limit $2`,
);

/** Requests that were sent to the provider within one minute. */
export interface SentRequests extends Listed {
  readonly sourceId: string;
  readonly minute: Instant;
  readonly policy: string;
  readonly purpose: string;
  readonly requests: number;
  /** Those answered with 429. */
  readonly refused: number;
}

const REQUEST_SORTS = bothWays(
  [
    ["provider_requests.minute", "timestamptz"],
    ["source_id", "text"],
    ["policy", "text"],
    ["purpose", "text"],
  ],
  ["newest", "oldest"],
);

/** The requests of all processes, by the minute in which they were recorded. */
export const REQUEST_ROWS = readRows<SentRequests>(
  REQUEST_SORTS,
  ["answer"],
  ({ position, condition, order }) =>
    `select ${position} as position, source_id as "sourceId", mirror.nanos_of(minute) as minute, policy, purpose,
       requests::float8, refused::float8
     from mirror.provider_requests
     where ($1::text is null or source_id = $1) and minute > clock_timestamp() - interval '2 days' and ${condition}
       and ($4::text is null or ($4 = 'refused') = (refused > 0))
     ${order} limit $2`,
);

/** A backfill or a verification, in any state. */
export interface Task extends Listed {
  readonly kind: "backfill" | "verification";
  readonly id: string;
  readonly sourceId: string;
  readonly since: Instant;
  readonly until: Instant;
  readonly state: string;
  readonly orders: number;
  /** Differences that a verification found; null for a backfill. */
  readonly differences: number | null;
  readonly requestedAt: Instant;
  readonly lastError: string | null;
}

const TASK_SORTS = bothWays([["request_id", "bigint"]], ["newest", "oldest"]);
export const TASK_STATES = ["requested", "running", "done", "failed", "cancelled"] as const;
export const TASK_KINDS = ["backfill", "verification"] as const;

export const TASK_ROWS = readRows<Task>(
  TASK_SORTS,
  ["state", "kind"],
  ({ position, condition, order }) =>
    `select ${position} as position, kind, request_id::text as id, source_id as "sourceId", since, until, state,
       orders::float8,
       case when kind = 'verification' then (missing + stale + contradicted + differing + extra)::float8 end as differences,
       last_error as "lastError", mirror.nanos_of(requested_at) as "requestedAt"
     from mirror.period_requests where ($1::text is null or source_id = $1) and ${condition}
       and ($4::text is null or state = $4) and ($5::text is null or kind = $5)
     ${order} limit $2`,
);

/** An event with its lag, from the change to the decision. */
export interface SlowEvent extends Listed {
  readonly sourceId: string;
  readonly reference: string | null;
  readonly eventId: string | null;
  readonly eventType: string | null;
  readonly seenAt: Instant;
  readonly lagSeconds: number;
}

const SLOW_SORTS: Sorts = {
  delay: {
    keys: [
      ["lag", "float8"],
      ["history_id", "bigint"],
    ],
    descending: true,
  },
  ...bothWays([["history_id", "bigint"]], ["newest", "oldest"]),
};

/** The events behind readWebhookLag. */
export const SLOW_ROWS = readRows<SlowEvent>(
  SLOW_SORTS,
  [],
  ({ position, condition, order }) =>
    `select ${position} as position, source_id as "sourceId", reference, event_id as "eventId",
       event_type as "eventType", mirror.nanos_of(seen_at) as "seenAt", lag as "lagSeconds"
     from (${LATELY}) lately where ($1::text is null or source_id = $1) and ${condition} ${order} limit $2`,
);
