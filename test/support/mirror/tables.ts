import { type Pool, queryInstants } from "../../../src/database/database.ts";
import type { Window } from "../../../src/domain/window/window.ts";
import type { PollState } from "../../../src/poll/pollState.sql.ts";
import type { WindowRead } from "../../../src/poll/sweeps/windows.ts";
import { parseInstant, type Instant } from "../../../src/domain/order/instant.ts";

/**
 * A statement that removes all rows of these tables of the schema `mirror`, named with spaces between them. It takes a
 * twentieth of the time of `truncate`, which makes new files and lets all connections plan their statements again. As
 * `truncate`, it waits for open transactions that write there, fires no triggers and checks no references. Only a
 * superuser may execute it.
 */
export function emptying(tables: string, { restartsIdentity = false } = {}): string {
  const names = tables.split(" ").map((table) => `mirror.${table}`);
  return [
    `lock table ${names.join(", ")} in exclusive mode`,
    "set local session_replication_role = replica",
    ...names.map((name) => `delete from ${name}`),
    ...(names.includes("mirror.changes") ? ["update mirror.sources set removed_position = 0"] : []),
    "set local session_replication_role = origin",
    ...(restartsIdentity ? [restart(names)] : []),
  ].join(";\n");
}

function restart(names: readonly string[]): string {
  return `select setval(objid::regclass, 1, false) from pg_depend join pg_class on pg_class.oid = objid
    where relkind = 'S' and deptype in ('a', 'i') and refobjid = any ('{${names.join(",")}}'::regclass[])`;
}

/** Removes all that a mirror has of its sources, orders and events, and lets its numbers begin again. */
export const EMPTY_MIRROR = emptying(
  "alerts branches calls changes coverage coverage_breaches erasures history inbox leases ops_actions orders " +
    "outgoing_deliveries outgoing_endpoints pending period_requests poll_state quarantine refetches " +
    "retention_walks webhook_hours",
  { restartsIdentity: true },
);

/** SQL for the source `live`: changes that events announced an hour or more ago. */
export const announced = (
  changes: number,
  { outcome = "announced", upTo = 5, hoursAgo = 5, sourceId = "live" } = {},
): string => `
  insert into mirror.webhook_hours values
    ('${sourceId}', date_trunc('hour', now()) - interval '${hoursAgo} hours', 'assigned', '${outcome}', ${upTo}, ${changes})
  on conflict (source_id, hour, status, outcome, up_to_seconds) do update set changes = excluded.changes;`;

/** SQL: changes that a poll found so long ago, and no event announced; in the hours' counts, too, if `counted`. */
export const lost = (
  count: number,
  ago: string,
  { counted = true, prefix = "R", status = "assigned" } = {},
): string => `
  insert into mirror.history (source_id, reference, via, verdict, version, status, previous_status, seen_at)
  select 'live', '${prefix}' || n, 'poll', 'applied', mirror.nanos_of(now() - interval '${ago}') - (n % 60) * 1000000000::bigint,
    '${status}', 'created', now() - interval '${ago}'
  from generate_series(1, ${count}) n;
  ${
    counted
      ? `insert into mirror.webhook_hours
  select 'live', date_trunc('hour', now() - interval '${ago}'), '${status}', 'lost', 0, ${count};`
      : ""
  }`;

/** Claims that all changes of the source `live` before an instant are there; `rest` are more columns. */
export async function prove(
  pool: { query: (text: string, values: unknown[]) => Promise<unknown> },
  safeThrough: string | null,
  rest: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  const state = {
    source_id: "live",
    history_since: 0n,
    safe_through: safeThrough && parseInstant(safeThrough),
    ...rest,
  };
  const names = Object.keys(state);
  await pool.query(
    `insert into mirror.poll_state (${names.join(", ")}) values (${names.map((_, index) => `$${index + 1}`).join(", ")})
     on conflict (source_id) do update set ${names.map((name) => `${name} = excluded.${name}`).join(", ")}`,
    Object.values(state),
  );
}

/** How far a source is; undefined if it was never polled. */
export async function readPollState(
  pool: Pool,
  sourceId: string,
): Promise<Omit<PollState, "isListDoubted"> | undefined> {
  const { rows } = await pool.query<Record<"since" | "through", string> & { safe: string | null }>(
    `select history_since as since, polled_through as through, safe_through as safe
     from mirror.poll_state where source_id = $1 and history_since is not null`,
    [sourceId],
  );
  return rows.map(({ since, through, safe }) => ({
    historySince: BigInt(since),
    polledThrough: BigInt(through),
    safeThrough: safe === null ? null : BigInt(safe),
  }))[0];
}

/** A window that was read to its end as soon as it was over. */
export function makeRead(window: Window, more: Partial<WindowRead> = {}): WindowRead {
  const found = { whole: true, requests: 1, orders: 0, listed: [], differed: [] };
  return { window, begunAt: window.until, durationMs: 1, ...found, ...more };
}

/** A withdrawn proof, a row of mirror.coverage_breaches. */
interface Breach extends Window {
  readonly safeThroughBefore: Instant | null;
  readonly safeThroughAfter: Instant | null;
  /** Null until the period is proved again. */
  readonly reprovedAt: Instant | null;
}

/** Breaches of a source, newest first: those numbered above `after`, at most `limit`. */
export function readBreaches(
  pool: Pool,
  { sourceId, after, limit }: { sourceId: string; after: bigint; limit: number },
): Promise<Breach[]> {
  return queryInstants<Breach>(
    pool,
    `select breach_id as "breachId", since, until, kind, reference, version, found_by as "foundBy", safe_through_before as "safeThroughBefore", safe_through_after as "safeThroughAfter",
       mirror.nanos_of(reproved_at) as "reprovedAt"
     from mirror.coverage_breaches where source_id = $1 and breach_id > $2 order by breach_id desc limit $3`,
    [sourceId, after, limit],
  );
}
