import { connect } from "node:net";
import pg from "pg";
import { sqlState } from "./databaseErrors.ts";
import { withTimeout } from "../process/abort.ts";
import { systemClock } from "../process/clock.ts";

export type Pool = pg.Pool;

/** Connection for statements: a pool, or a client inside a transaction. */
export type Queryable = Pick<pg.ClientBase, "query">;

export interface PoolOptions {
  readonly url: string;
  /** The purpose of the connections; shown as `application_name` in pg_stat_activity. */
  readonly purpose: string;
  readonly max: number;
  /** The server cancels a statement after this many milliseconds. */
  readonly statementTimeoutMs: number;
  /**
   * The address is a pooler in transaction mode. Statements are not prepared under a name, because each may get another
   * connection; and only the client enforces timeouts, because such a pooler refuses our settings.
   */
  readonly pooled?: boolean;
  /**
   * For frequent named statements, whose plans the server caches. A plan made while a table was empty scans the whole
   * table, or uses a wrong index, long after the table has grown; analysis comes a minute later at best. So rows are
   * always looked up by index, and plans are renewed often.
   */
  readonly keepsPlans?: boolean;
  /**
   * Prepares each statement with values once per connection, and plans it once for all values: to send, parse and plan
   * a statement costs more than to execute it. As tables grow, the server would otherwise compare the current cost of
   * such a plan with the cost of value-specific plans from when the tables were small, and plan every execution: 1 ms
   * for the statement that applies, twice its execution time.
   */
  readonly plansForAnyValues?: boolean;
  /** Longest wait of a caller for a free or a new connection, in milliseconds. */
  readonly connectTimeoutMs?: number;
}

/** Longest wait for a connection to Postgres, in milliseconds: a busy server needs seconds to make one. */
export const CONNECT_TIMEOUT_MS = 5_000;
/** A frozen server would hold up the end of a connection indefinitely. */
const END_DEADLINE_MS = 1_000;
/** Past the server's own timeout plus this margin, the client assumes that the server is frozen and gives up. */
const FROZEN_SERVER_MARGIN_MS = 1_000;

const PLANS_KEPT_MS = 15_000;

/**
 * Servers with LLVM, such as Debian's, compile each plan whose estimated cost is high: up to ten seconds on a busy
 * machine for statements that run for milliseconds. Estimates are high while tables have no statistics, and with
 * `keepsPlans` on servers older than 18, where avoiding a scan is a matter of cost.
 */
const NEVER_COMPILED = "-c jit=off";

const TIMESTAMPTZ_OID = 1184;
const DATE_OID = 1082;
const asText = (text: string) => text;

/**
 * A pool for one purpose, so that none starves another.
 *
 * `bigint` columns arrive as strings (pg's default) and `timestamptz` as the server's text: a JS `Date` would lose
 * microseconds. Use `pool.query`: it destroys the client after a timeout, whereas `connect` with a plain `release`
 * would pass the broken client to the next caller.
 */
export function makePool(options: PoolOptions): Pool {
  const { url, purpose, max, statementTimeoutMs, connectTimeoutMs = CONNECT_TIMEOUT_MS } = options;
  const { pooled = false, keepsPlans = false, plansForAnyValues = false } = options;
  const planning = [
    NEVER_COMPILED,
    ...(keepsPlans ? ["-c enable_seqscan=off"] : []),
    ...(plansForAnyValues ? ["-c plan_cache_mode=force_generic_plan"] : []),
  ];
  const nameOf = pooled ? () => undefined : plansForAnyValues ? makeNames() : undefined;
  const pool = new pg.Pool({
    ...(nameOf && { Client: makeNamingClient(nameOf) }),
    connectionString: url,
    application_name: `order-mirror ${purpose}`,
    max,
    types: makeTypes(),
    keepAlive: true,
    connectionTimeoutMillis: connectTimeoutMs,
    query_timeout: statementTimeoutMs + FROZEN_SERVER_MARGIN_MS,
    ...(pooled
      ? {}
      : {
          statement_timeout: statementTimeoutMs,
          idle_in_transaction_session_timeout: statementTimeoutMs,
          options: planning.join(" "),
        }),
  });
  if (keepsPlans && !pooled) forgetPlans(pool);
  cancelAbandoned(pool);
  // A broken idle connection is replaced at its next use; a break between two statements of a transaction surfaces in
  // the second. Without these listeners either would end the process.
  pool.on("error", () => undefined);
  pool.on("connect", (client) => client.on("error", () => undefined));
  return pool;
}

function makeTypes(): pg.TypeOverrides {
  const types = new pg.TypeOverrides();
  types.setTypeParser(TIMESTAMPTZ_OID, asText);
  types.setTypeParser(DATE_OID, asText);
  return types;
}

const BIGINTS = makeTypes();
BIGINTS.setTypeParser(pg.types.builtins.INT8, BigInt);

/** Rows with 64-bit integers as bigint, which are instants. For lists; hot paths forward positions as text. */
export async function queryInstants<Row extends pg.QueryResultRow>(
  db: Queryable,
  statement: string | { readonly name: string; readonly text: string },
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const named = typeof statement === "string" ? { text: statement } : statement;
  const { rows } = await db.query<Row>({ ...named, values: [...values], types: BIGINTS });
  return rows;
}

export async function withPool<Result>(
  options: PoolOptions,
  use: (pool: Pool) => Promise<Result>,
): Promise<Result> {
  const pool = makePool(options);
  try {
    return await use(pool);
  } finally {
    await pool.end();
  }
}

/** Runs `use` with a single connection that ends with it. */
export async function withClient<Result>(
  place: string | pg.ClientConfig,
  use: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client(place);
  // The next query reports a broken connection; without a listener, the error would end the process.
  client.on("error", () => undefined);
  try {
    await client.connect();
    return await use(client);
  } finally {
    await withTimeout(
      client.end().catch(() => undefined),
      END_DEADLINE_MS,
    );
  }
}

/** Makes each connection renew its statement plans from time to time, before its next use. */
function forgetPlans(pool: Pool): void {
  const plannedAtMs = new WeakMap<pg.PoolClient, number>();
  pool.on("connect", (client) => void plannedAtMs.set(client, systemClock.monotonicMs()));
  pool.on("acquire", (client) => {
    const nowMs = systemClock.monotonicMs();
    if (nowMs - (plannedAtMs.get(client) ?? nowMs) < PLANS_KEPT_MS) return;
    plannedAtMs.set(client, nowMs);
    // The caller's own statement reports a broken connection.
    client.query("discard plans").catch(() => undefined);
  });
}

/** A name under which a statement is prepared; undefined: none. */
type NameOf = (text: string, given: string | undefined) => string | undefined;

/** Names each statement that has no name. */
function makeNames(): NameOf {
  const names = new Map<string, string>();
  return (text, given) => {
    if (given !== undefined) return given;
    const name = names.get(text) ?? `statement ${names.size + 1}`;
    names.set(text, name);
    return name;
  };
}

/** A client that runs statements with values under the names that `nameOf` gives them. */
function makeNamingClient(nameOf: NameOf): typeof pg.Client {
  type Query = (...given: unknown[]) => unknown;
  class NamingClient extends pg.Client {
    override readonly query = ((statement: unknown, values: unknown, ...rest: unknown[]): unknown => {
      const run = super.query.bind(this) as Query;
      if (typeof statement === "string" && Array.isArray(values))
        return run({ name: nameOf(statement, undefined), text: statement, values }, ...rest);
      const named = isPrepared(statement)
        ? { ...statement, name: nameOf(statement.text, statement.name) }
        : statement;
      return run(named, values, ...rest);
    }) as pg.Client["query"];
  }
  return NamingClient;
}

/** A statement with a name or with values: one that can be prepared. */
function isPrepared(statement: unknown): statement is { readonly name?: string; readonly text: string } {
  return (
    typeof statement === "object" && statement !== null && ("name" in statement || "values" in statement)
  );
}

/** Fields with which the protocol cancels a connection's statement; pg has them but does not declare them. */
interface Cancellable {
  readonly host: string;
  readonly port: number;
  readonly processID: number | null;
  readonly secretKey: number | null;
}

const CANCEL_REQUEST = 80_877_102;
const REQUEST_BYTES = 16;
const SEND_TIMEOUT_MS = 2_000;

/**
 * Cancels statements on the server that the client gave up on. The server does not notice that the client is gone, and
 * the wait for a synchronous standby has no timeout: each such commit would occupy its backend until none is left.
 *
 * A cancelled wait for a standby leaves the commit in place on the primary. Nobody sees it as a success, because the
 * client is closed. Behind a pooler the cancel request arrives too late to be forwarded.
 */
function cancelAbandoned(pool: pg.Pool): void {
  pool.on("release", (error: unknown, client) => {
    // An error from the server ends the statement; any other error means that the client gave up or the connection
    // broke.
    if (error instanceof Error && sqlState(error) === undefined)
      sendCancelRequest(client as unknown as Cancellable);
  });
}

/** Sent as a bare protocol message: that needs no pooled connection, and none may be left. */
function sendCancelRequest({ host, port, processID, secretKey }: Cancellable): void {
  if (processID === null || secretKey === null) return;
  const request = Buffer.alloc(REQUEST_BYTES);
  request.writeInt32BE(REQUEST_BYTES, 0);
  request.writeInt32BE(CANCEL_REQUEST, 4);
  request.writeInt32BE(processID, 8);
  request.writeInt32BE(secretKey, 12);
  const socket = host.startsWith("/") ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
  // The statement has ended, or the server is down and has nothing to cancel.
  socket.on("error", () => undefined);
  socket.setTimeout(SEND_TIMEOUT_MS, () => socket.destroy());
  socket.unref();
  socket.end(request);
}
