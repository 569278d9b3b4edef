import { bothWays } from "../../database/keyset.sql.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { readRows } from "./list.ts";
import type { Listed } from "./list.ts";

/** A window that was read from the provider. */
export interface WalkedWindow extends Listed {
  readonly sourceId: string;
  readonly sweep: string;
  readonly since: Instant;
  readonly until: Instant;
  readonly proved: boolean;
  readonly requests: number;
  readonly orders: number;
  readonly endedAt: Instant;
}

const WALK_SORTS = bothWays(
  [
    ["coverage_id", "bigint"],
    ["source_id", "text"],
  ],
  ["newest", "oldest"],
);

/** Windows in the order of their reading. */
export const WALK_ROWS = readRows<WalkedWindow>(
  WALK_SORTS,
  ["sweep", "proved"],
  ({ position, condition, order }) =>
    `select ${position} as position, source_id as "sourceId", sweep, since, until, proved, requests, orders,
       mirror.nanos_of(ended_at) as "endedAt"
     from mirror.coverage where ($1::text is null or source_id = $1) and ${condition}
       and ($4::text is null or sweep = $4) and ($5::text is null or ($5 = 'yes') = proved)
     ${order} limit $2`,
);

/** A withdrawn proof; see mirror.coverage_breaches. */
export interface ListedBreach extends Listed {
  readonly sourceId: string;
  readonly since: Instant;
  readonly until: Instant;
  readonly kind: string;
  readonly reference: string;
  readonly foundAt: Instant;
  /** Null until the period is proved again. */
  readonly reprovedAt: Instant | null;
}

const BREACH_SORTS = bothWays(
  [
    ["breach_id", "bigint"],
    ["source_id", "text"],
  ],
  ["newest", "oldest"],
);

export const BREACH_ROWS = readRows<ListedBreach>(
  BREACH_SORTS,
  ["state"],
  ({ position, condition, order }) =>
    `select ${position} as position, source_id as "sourceId", since, until, kind, reference,
       mirror.nanos_of(found_at) as "foundAt", mirror.nanos_of(reproved_at) as "reprovedAt"
     from mirror.coverage_breaches where ($1::text is null or source_id = $1) and ${condition}
       and ($4::text is null or ($4 = 'open') = (reproved_at is null))
     ${order} limit $2`,
);

/** A period between proved windows that no read has proved. */
export interface ListedGap extends Listed {
  readonly sourceId: string;
  readonly since: Instant;
  readonly until: Instant;
}

const GAP_SORTS = bothWays(
  [
    ["lower(gap)", "bigint"],
    ["source_id", "text"],
  ],
  ["newest", "oldest"],
);

/** The gaps of the last week; what is not read yet, at the end, is none. */
export const GAP_ROWS = readRows<ListedGap>(
  GAP_SORTS,
  [],
  ({ position, condition, order }) =>
    `with spans as (
       select source_id, range_agg(int8range(since, until)) as spans from mirror.proved
       where ($1::text is null or source_id = $1)
         and until > (extract(epoch from clock_timestamp() - interval '7 days') * 1000000000)::bigint
       group by source_id
     )
     select ${position} as position, source_id as "sourceId", lower(gap) as since, upper(gap) as until
     from spans, unnest(int8multirange(range_merge(spans)) - spans) as gap
     where ${condition} ${order} limit $2`,
);
