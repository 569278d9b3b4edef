import pg from "pg";
import { cancelAbandoned } from "./abandoned.ts";
import { systemClock } from "../runtime/lifecycle/clock.ts";

export type Pool = pg.Pool;

/** What statements are run on: a pool, or a client in the middle of a transaction. */
export type Queryable = Pick<pg.ClientBase, "query">;

export interface PoolOptions {
  readonly url: string;
  /** What the connections are for; shown as `application_name` in pg_stat_activity. */
  readonly purpose: string;
  readonly max: number;
  /** After this long the server cancels a statement, in milliseconds. */
  readonly statementTimeoutMs: number;
  /**
   * The address leads to a pooler in transaction mode: statements are not prepared under a name, since each may meet
   * another connection, and only the client watches the time, since such a pooler refuses settings of ours.
   */
  readonly pooled?: boolean;
  /**
   * For named statements that run all the time, whose plans the server keeps. One that was made while a table was empty
   * reads it whole, or skips through a wrong index, long after it has grown; analysis comes a minute later at best. So
   * rows are looked for by index, and plans are often made again.
   */
  readonly keepsPlans?: boolean;
  /**
   * Plans each statement once for whatever values it is given. Where tables grow, the server would otherwise hold
   * what such a plan costs by now against what plans for single values cost when the tables were small, and plan every
   * execution: 1 ms for the statement that applies, twice what it takes to carry out.
   */
  readonly plansForAnyValues?: boolean;
  /** How long a caller waits for a free connection, or for a new one, in milliseconds. */
  readonly connectTimeoutMs?: number;
}

const CONNECT_TIMEOUT_MS = 5_000;
/** Beyond the server's own timeout the server is taken for frozen, and the client gives up by itself. */
const FROZEN_SERVER_MARGIN_MS = 1_000;

const PLANS_KEPT_MS = 15_000;

const TIMESTAMPTZ_OID = 1184;
const DATE_OID = 1082;
const asText = (text: string) => text;

/**
 * A pool for one purpose, so that none starves another.
 *
 * `bigint` columns come back as strings (pg's default) and `timestamptz` as the server's text: a JS `Date` would
 * cut microseconds. Use `pool.query`: after a timeout it destroys the client, where `connect` with a plain
 * `release` would hand the poisoned client to the next caller.
 */
export function makePool(options: PoolOptions): Pool {
  const { url, purpose, max, statementTimeoutMs, connectTimeoutMs = CONNECT_TIMEOUT_MS } = options;
  const { pooled = false, keepsPlans = false, plansForAnyValues = false } = options;
  const planning = [
    ...(keepsPlans ? ["-c enable_seqscan=off"] : []),
    ...(plansForAnyValues ? ["-c plan_cache_mode=force_generic_plan"] : []),
  ];
  const types = new pg.TypeOverrides();
  types.setTypeParser(TIMESTAMPTZ_OID, asText);
  types.setTypeParser(DATE_OID, asText);
  const pool = new pg.Pool({
    connectionString: url,
    application_name: `order-mirror ${purpose}`,
    max,
    types,
    keepAlive: true,
    connectionTimeoutMillis: connectTimeoutMs,
    query_timeout: statementTimeoutMs + FROZEN_SERVER_MARGIN_MS,
    ...(pooled
      ? {}
      : {
          statement_timeout: statementTimeoutMs,
          idle_in_transaction_session_timeout: statementTimeoutMs,
          ...(planning.length > 0 ? { options: planning.join(" ") } : {}),
        }),
  });
  if (pooled) forgetNames(pool);
  else if (keepsPlans) forgetPlans(pool);
  cancelAbandoned(pool);
  // An idle connection that breaks is replaced at the next use, and one that breaks between two statements of a
  // transaction is noticed by the second; without these listeners either would end the process.
  pool.on("error", () => undefined);
  pool.on("connect", (client) => client.on("error", () => undefined));
  return pool;
}

/** Makes each connection plan its statements again from time to time, before it is given to its next user. */
function forgetPlans(pool: Pool): void {
  const plannedAtMs = new WeakMap<pg.PoolClient, number>();
  pool.on("connect", (client) => void plannedAtMs.set(client, systemClock.monotonicMs()));
  pool.on("acquire", (client) => {
    const nowMs = systemClock.monotonicMs();
    if (nowMs - (plannedAtMs.get(client) ?? nowMs) < PLANS_KEPT_MS) return;
    plannedAtMs.set(client, nowMs);
    // Whoever waits for it hears of a broken connection by the statement of its own.
    client.query("discard plans").catch(() => undefined);
  });
}

/** Runs statements without the name under which they would be prepared, on the pool and on each of its clients. */
function forgetNames(pool: Pool): void {
  pool.on("connect", (client) => {
    const query = client.query.bind(client) as (...given: unknown[]) => unknown;
    const queryUnnamed = (statement: unknown, ...rest: unknown[]) =>
      query(isNamed(statement) ? { ...statement, name: undefined } : statement, ...rest);
    Object.assign(client, { query: queryUnnamed });
  });
}

function isNamed(statement: unknown): statement is { readonly name: unknown } {
  return typeof statement === "object" && statement !== null && "name" in statement;
}
