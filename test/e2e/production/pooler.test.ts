import { afterEach, expect, it, onTestFinished, vi } from "vitest";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { at, makeEventBody } from "../../support/mirror/orders.ts";
import { canStartPgBouncer, startPgBouncer } from "../../support/servers/pgBouncer.ts";
import { startRole, stopPrograms } from "../../support/programs/program.ts";
import { makeTestSandbox } from "../../support/providers/testSandbox.ts";
import { sendEvent } from "../../support/signing/signing.ts";

afterEach(stopPrograms);

it.runIf(canStartPgBouncer)(
  "behind PgBouncer in transaction mode receives events, polls and answers with more clients than connections",
  async () => {
    const sandbox = await makeTestSandbox();
    const { database } = sandbox;
    onTestFinished(() => sandbox.close());
    const pooler = await startPgBouncer(database.url);
    onTestFinished(() => pooler.stop());
    await sandbox.steer("POST", "/seed", { orders: 30 });
    const port = await findFreePort();
    const program = await startRole("up", {
      DATABASE_URL: pooler.url,
      DATABASE_DIRECT_URL: database.url,
      DELIVERY_BASE_URL: sandbox.url,
      POLL_INTERVAL_SECONDS: "1",
      PORT: String(port),
    });

    const base = `http://127.0.0.1:${port}`;
    const events = Array.from({ length: 40 }, (_, n) => `R${n}`);
    const statuses = await Promise.all(
      events.map((reference, n) =>
        sendEvent(`${base}/webhooks/live`, {
          id: `evt_${reference}`,
          body: makeEventBody({ id: `evt_${reference}`, order: { reference, updatedAt: at(n) } }),
        }),
      ),
    );
    expect(statuses).toEqual(events.map(() => 200));
    const count = async () => {
      const answer = await fetch(`${base}/v1/orders?limit=200`);
      return ((await answer.json()) as { data: unknown[] }).data.length;
    };
    await vi.waitFor(async () => expect(await count()).toBeGreaterThanOrEqual(70), {
      timeout: 120_000,
      interval: 250,
    });
    expect((await fetch(`${base}/v1/changes`)).status).toBe(200);
    expect((await fetch(`${base}/readyz`)).status).toBe(200);

    // All except the queue's, which listens and so needs its own connection.
    const { rows } = await database.pool.query<{ application_name: string }>(
      "select distinct application_name from pg_stat_activity where application_name like 'order-mirror queue%'",
    );
    expect(rows.length).toBeGreaterThan(0);
    const through = await database.pool.query<{ connections: number }>(
      `select count(*)::int as connections from pg_stat_activity
       where datname = current_database() and application_name ~ '^order-mirror (receive|apply|read|ops|export)'`,
    );
    expect(through.rows[0]?.connections).toBeLessThanOrEqual(2);
    expect(await pooler.countTransactions()).toBeGreaterThan(10);
    expect(program.output()).not.toMatch(/prepared statement|"level":"?(error|50)/);
  },
);
