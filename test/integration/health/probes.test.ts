import { createServer, type AddressInfo, type Socket } from "node:net";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { makePool, type Pool } from "../../../src/database/database.ts";
import { makeHealthRouter, type HealthRouterDeps } from "../../../src/health/healthRouter.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { serve } from "../../support/http/serve.ts";

const { database } = await openTestDatabase();
let pool: Pool;
let draining: AbortController;

beforeEach(() => {
  draining = new AbortController();
  pool = openPool(database.url);
});

function openPool(url: string): Pool {
  const limits = { max: 2, statementTimeoutMs: 60_000, connectTimeoutMs: 60_000 };
  const opened = makePool({ url, purpose: "health", ...limits });
  onTestFinished(() => opened.end());
  return opened;
}

async function start(deps: Partial<HealthRouterDeps> = {}) {
  const server = await serve(
    makeHealthRouter({
      pool,
      databaseUrl: database.url,
      signal: draining.signal,
      logger: silentLogger,
      ...deps,
    }),
  );
  onTestFinished(() => server.close());
  return async (path: string) => {
    const response = await fetch(server.url + path);
    expect(response.headers.get("cache-control")).toBe("no-store");
    return { status: response.status, body: (await response.json()) as unknown };
  };
}

/** The body of the verbose answer. */
const ready = (...failing: string[]) => ({
  ready: failing.length === 0,
  checks: ["accepting", "postgres", "migrations"].map((name) => ({ name, ok: !failing.includes(name) })),
});

describe("readiness", () => {
  it("is 200 while events can be stored, with the checks on request", async () => {
    const get = await start();
    expect(await get("/readyz")).toEqual({ status: 200, body: { ready: true } });
    expect(await get("/readyz?verbose")).toEqual({ status: 200, body: ready() });
  });

  it("is 503 from the moment the process begins to shut down", async () => {
    const get = await start();
    expect((await get("/readyz")).status).toBe(200);
    draining.abort();
    expect(await get("/readyz?verbose")).toMatchObject({ status: 503, body: ready("accepting") });
    expect((await get("/livez")).status).toBe(200);
  });

  it("is 503 while the database lacks a migration, and 200 once it has run", async () => {
    let nowMs = 0;
    const get = await start({ clock: { ...systemClock, monotonicMs: () => nowMs } });
    const { rows } = await database.pool.query<{ name: string }>(
      "delete from order_mirror_migrations where id = (select max(id) from order_mirror_migrations) returning name",
    );
    expect(await get("/readyz?verbose")).toMatchObject({ status: 503, body: ready("migrations") });
    await database.pool.query(
      "insert into order_mirror_migrations (name, batch, migration_time) values ($1, 1, now())",
      [rows[0]?.name],
    );
    nowMs += 999;
    expect((await get("/readyz")).status).toBe(503);
    nowMs += 1;
    expect((await get("/readyz")).status).toBe(200);
  });

  it("is 503 when this role may not insert into the inbox", async () => {
    await database.pool.query("drop role if exists health_reader");
    await database.pool.query(
      "create role health_reader login password 'x'; grant usage on schema mirror to health_reader",
    );
    const url = new URL(database.url);
    url.username = "health_reader";
    url.password = "x";
    // No look is held.
    let nowMs = 0;
    const clock = { ...systemClock, monotonicMs: () => (nowMs += 1_000) };
    const get = await start({ pool: openPool(url.href), clock });
    expect((await get("/readyz")).status).toBe(503);
    // The check also writes a message to the log, as receiving does.
    await database.pool.query(`do $$ declare message regprocedure; begin
      for message in select oid from pg_proc where proname = 'pg_logical_emit_message' loop
        execute format('grant execute on function %s to health_reader', message);
      end loop;
    end $$`);
    expect((await get("/readyz")).status).toBe(503);
    await database.pool.query("grant insert on mirror.inbox to health_reader");
    expect((await get("/readyz")).status).toBe(200);
    await database.pool.query("drop owned by health_reader; drop role health_reader");
  });

  it("is 503 within about two seconds when the database accepts connections but never answers", async () => {
    const sockets: Socket[] = [];
    const frozen = createServer((socket) => void sockets.push(socket));
    await new Promise<void>((resolve) => frozen.listen(0, "127.0.0.1", resolve));
    const url = `postgres://u:p@127.0.0.1:${(frozen.address() as AddressInfo).port}/x`;
    const get = await start({ pool: openPool(url) });
    const startedMs = performance.now();
    expect((await get("/readyz")).status).toBe(503);
    expect(performance.now() - startedMs).toBeLessThan(20_000);
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => frozen.close(resolve));
  });
});
