import type { Instant } from "../../domain/order/instant.ts";
import type { Pool } from "../../database/database.ts";

/** A query for one of the lists behind the figures of the overview. */
export interface ListQuery {
  /** Null: every source. */
  readonly sourceId: string | null;
  readonly limit: number;
}

/** A change without an event that should have announced it. */
export interface LostEvent {
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

/** Changes that reads of the last 24 h found and no event announced, newest first. */
export async function readLostEvents(pool: Pool, { sourceId, limit }: ListQuery): Promise<LostEvent[]> {
  const { rows } = await pool.query<Omit<LostEvent, "foundAt"> & { foundAt: string }>(
    `select u.source_id as "sourceId", u.reference, u.status, u.via, u.state, mirror.nanos_of(u.found_at) as "foundAt",
       (extract(epoch from u.found_at) - u.version / 1000000000.0)::float8 as "delaySeconds"
     from mirror.sources s cross join lateral (
       select * from mirror.unannounced_changes
       where source_id = s.source_id and state in ('waiting', 'lost')
         and found_at > clock_timestamp() - interval '1 day'
       order by found_at desc limit $2
     ) u
     where $1::text is null or s.source_id = $1 order by u.found_at desc limit $2`,
    [sourceId, limit],
  );
  return rows.map((row) => ({ ...row, foundAt: BigInt(row.foundAt) }));
}

/** An event that awaits its decision. */
export interface WaitingEvent {
  readonly sourceId: string;
  readonly eventId: string;
  readonly ageSeconds: number;
}

/** Events without a decision, oldest first. */
export async function readWaitingEvents(pool: Pool, { sourceId, limit }: ListQuery): Promise<WaitingEvent[]> {
  const { rows } = await pool.query<WaitingEvent>(
    `select p.source_id as "sourceId", i.event_id as "eventId",
       extract(epoch from clock_timestamp() - p.received_at)::float8 as "ageSeconds"
     from (
       select * from mirror.pending where $1::text is null or source_id = $1 order by seq limit $2
     ) p join mirror.inbox i using (seq) order by p.seq`,
    [sourceId, limit],
  );
  return rows;
}

/** An order waiting for a re-read. */
export interface WaitingRefetch {
  readonly sourceId: string;
  readonly reference: string;
  readonly reason: string;
  readonly attempts: number;
  /** Null if the last read did not fail. */
  readonly lastError: string | null;
  readonly ageSeconds: number;
}

/** In the order in which the poller processes them. */
export async function readWaitingRefetches(
  pool: Pool,
  { sourceId, limit }: ListQuery,
): Promise<WaitingRefetch[]> {
  const { rows } = await pool.query<WaitingRefetch>(
    `select source_id as "sourceId", reference, reason, attempts, last_error as "lastError",
       extract(epoch from clock_timestamp() - requested_at)::float8 as "ageSeconds"
     from mirror.refetches where $1::text is null or source_id = $1 order by next_attempt_at limit $2`,
    [sourceId, limit],
  );
  return rows;
}

/** Requests that were sent to the provider within one minute. */
export interface SentRequests {
  readonly sourceId: string;
  /** Seconds since 1970. */
  readonly minute: number;
  readonly policy: string;
  readonly purpose: string;
  readonly requests: number;
}

/** The newest minute first. */
export async function readSentRequests(pool: Pool, { sourceId, limit }: ListQuery): Promise<SentRequests[]> {
  const { rows } = await pool.query<SentRequests>(
    `select source_id as "sourceId", extract(epoch from minute)::float8 as minute, policy, purpose,
       requests::float8
     from mirror.provider_requests where $1::text is null or source_id = $1
     order by provider_requests.minute desc, source_id, provider_requests.requests desc limit $2`,
    [sourceId, limit],
  );
  return rows;
}

/** A window that was read from the provider. */
export interface WalkedWindow {
  readonly sourceId: string;
  readonly sweep: string;
  readonly since: Instant;
  readonly until: Instant;
  readonly proved: boolean;
  readonly requests: number;
  readonly orders: number;
  readonly endedAgeSeconds: number;
}

/** Windows in the order of their reading, the latest first. */
export async function readWalks(pool: Pool, { sourceId, limit }: ListQuery): Promise<WalkedWindow[]> {
  const { rows } = await pool.query<Omit<WalkedWindow, "since" | "until"> & { since: string; until: string }>(
    `select source_id as "sourceId", sweep, since, until, proved, requests, orders,
       extract(epoch from clock_timestamp() - ended_at)::float8 as "endedAgeSeconds"
     from mirror.coverage where $1::text is null or source_id = $1 order by coverage_id desc limit $2`,
    [sourceId, limit],
  );
  return rows.map((row) => ({ ...row, since: BigInt(row.since), until: BigInt(row.until) }));
}

/** A backfill or a verification, in any state. */
export interface Task {
  readonly kind: "backfill" | "verification";
  readonly id: string;
  readonly sourceId: string;
  readonly since: Instant;
  readonly until: Instant;
  readonly state: string;
  readonly orders: number;
  /** Differences that a verification found; null for a backfill. */
  readonly differences: number | null;
  readonly requestedAgeSeconds: number;
  readonly lastError: string | null;
}

/** The latest request first. */
export async function readTasks(pool: Pool, { sourceId, limit }: ListQuery): Promise<Task[]> {
  const { rows } = await pool.query<Omit<Task, "since" | "until"> & { since: string; until: string }>(
    `select kind, request_id::text as id, source_id as "sourceId", since, until, state, orders::float8,
       case when kind = 'verification' then (missing + stale + contradicted + differing + extra)::float8 end as differences,
       last_error as "lastError", extract(epoch from clock_timestamp() - requested_at)::float8 as "requestedAgeSeconds"
     from mirror.period_requests where $1::text is null or source_id = $1
     order by request_id desc limit $2`,
    [sourceId, limit],
  );
  return rows.map((row) => ({ ...row, since: BigInt(row.since), until: BigInt(row.until) }));
}
