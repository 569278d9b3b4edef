import { afterAll, expect } from "vitest";
import { makeOpsRouter, type OpsDeps } from "../../../src/ops/opsRouter.ts";
import { makeHealthReader } from "../../../src/health/health.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { logIn, serve } from "../http/serve.ts";
import { openTestDatabase } from "../servers/database.ts";
import {
  createPostgresBackend,
  UnrecoverableError,
  withBackend,
  type PostgresConnectionOptions,
  type Queue as AnyQueue,
} from "bullmq";
import pg from "pg";
import { QUEUE_SCHEMA } from "../../../src/queue/postgresServer.ts";

/** Whoever asks from this machine is the operator. */
export const OPEN = {
  opsPassword: null,
  opsViewerPassword: null,
  localTrust: true,
  signOn: null,
  dataDir: ".data",
};
export const PASSWORDS = { operator: "operate", viewer: "look" };
type Role = keyof typeof PASSWORDS;

/** The ops pages over a migrated database for this test file, closed after the file's tests, as either role sees them. */
export async function openOpsPages({ max = 2, ...options }: Partial<OpsDeps> & { max?: number } = {}) {
  const { database, pool } = await openTestDatabase({ purpose: "ops", max, statementTimeoutMs: 5_000 });
  const board = await openBoardQueue(database.url, "pages");
  const { clock = systemClock } = options;
  const deps = {
    pool,
    queue: board.queue,
    config: { ...OPEN, opsPassword: PASSWORDS.operator, opsViewerPassword: PASSWORDS.viewer },
    logger: silentLogger,
    clock,
    listRate: { requestsMax: 20, windowMs: 10_000 },
    notify: () => undefined,
    health: makeHealthReader({ pool, clock, sources: [] }),
    ...options,
  };
  const server = await serve(makeOpsRouter(deps));
  const { url } = server;
  afterAll(async () => {
    await server.close();
    await board.close();
  });
  // With another configuration a test comes in by its own way.
  const isOurs = options.config === undefined;
  const sessions = isOurs && {
    operator: await logIn(url, PASSWORDS.operator),
    viewer: await logIn(url, PASSWORDS.viewer),
  };
  await database.pool.query("delete from mirror.ops_actions");
  const as = (role: Role): Record<string, string> => (sessions ? sessions[role] : {});

  /** A page, and its text as a person reads it; `to` is where it leads instead. */
  async function read(path: string, role: Role = "operator") {
    const answer = await fetch(url + path, { headers: as(role), redirect: "manual" });
    const page = await answer.text();
    const text = page
      .replaceAll(/<[^>]+>/g, " ")
      .replaceAll(/\s+/g, " ")
      .replaceAll("&quot;", '"');
    return { status: answer.status, headers: answer.headers, to: answer.headers.get("location"), page, text };
  }
  /** Sends a form from a page, as a browser names it; `to` is where the answer leads. */
  async function post(
    path: string,
    fields: Record<string, string> = {},
    { role = "operator" as Role, from = "" } = {},
  ) {
    const headers = { ...as(role), ...(from !== "" && { Referer: url + from }) };
    const body = new URLSearchParams(fields);
    const answer = await fetch(url + path, { method: "POST", body, headers, redirect: "manual" });
    return { status: answer.status, to: answer.headers.get("location") };
  }
  return { database, pool, board, deps, url, as, read, post };
}

/** A BullMQ queue of the test's own in the migrated database, without a worker. */
async function openBoardQueue(databaseUrl: string, name: string) {
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    max: 2,
    options: `-c search_path=${QUEUE_SCHEMA}`,
  });
  pool.on("error", () => undefined);
  const { Queue, Worker } = withBackend(createPostgresBackend);
  const connection = pool as unknown as PostgresConnectionOptions;
  const queue = new Queue(name, { connection });
  await queue.waitUntilReady();
  /** Works off the waiting jobs: each fails for good, for this reason. */
  const failAll = async (reason: string) => {
    const fail = () => Promise.reject(new UnrecoverableError(reason));
    const worker = new Worker(name, fail, { connection });
    await expect.poll(() => queue.getWaitingCount()).toBe(0);
    await worker.close();
  };
  const close = async () => {
    await queue.close();
    await pool.end();
  };
  // As the product sees it, whatever its backend.
  return { queue: queue as unknown as AnyQueue, failAll, close };
}
