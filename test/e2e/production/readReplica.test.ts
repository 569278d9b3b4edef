import { afterEach, expect, it, onTestFinished, vi } from "vitest";
import pg from "pg";
import { makePool } from "../../../src/database/database.ts";
import { formatInstant, parseInstant } from "../../../src/domain/order/instant.ts";
import { findFreePort } from "../../../src/runtime/postgres/freePort.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { at, makeSnapshot, readAt } from "../../support/mirror/orders.ts";
import { startRole, stopPrograms } from "../../support/programs/program.ts";
import { startReplicatedPostgres } from "../../support/servers/replica.ts";

afterEach(stopPrograms);

it("a lagging replica answers with old orders and the old X-Safe-Through, and the feed comes from the primary", async () => {
  const postgres = await startReplicatedPostgres();
  onTestFinished(() => postgres.remove());
  const port = await findFreePort();
  await startRole("web", {
    DATABASE_URL: postgres.primaryUrl,
    DATABASE_READ_URL: postgres.replicaUrl,
    PORT: String(port),
  });
  const base = `http://127.0.0.1:${port}`;

  const primary = makePool({ url: postgres.primaryUrl, purpose: "test", max: 2, statementTimeoutMs: 30_000 });
  onTestFinished(() => primary.end());
  const replica = new pg.Client(postgres.replicaUrl);
  await replica.connect();
  onTestFinished(() => replica.end());
  const apply = makeLiveApply(primary);
  /** Writes as a sweep does: first the order, then the claim about it. */
  const put = async (reference: string, safeThrough: string) => {
    const snapshots = [makeSnapshot({ reference, updatedAt: at(1) })];
    const requestedAt = parseInstant(at(60));
    await apply.applyReads({ sourceId: "live", via: "poll", snapshots, time: readAt(requestedAt) });
    await primary.query(
      `insert into mirror.poll_state (source_id, history_since, safe_through) values ('live', 0, $1)
       on conflict (source_id) do update set safe_through = excluded.safe_through`,
      [parseInstant(safeThrough)],
    );
  };
  const read = async () => {
    const answer = await fetch(`${base}/v1/orders`);
    const { data } = (await answer.json()) as { data: { reference: string }[] };
    return {
      orders: data.map(({ reference }) => reference),
      safeThrough: answer.headers.get("x-safe-through"),
    };
  };
  const state = (orders: string[], seconds: number) => ({
    orders,
    safeThrough: formatInstant(parseInstant(at(seconds))),
  });

  await put("A", at(100));
  await vi.waitFor(async () => expect(await read()).toEqual(state(["A"], 100)), { timeout: 60_000 });

  await replica.query("select pg_wal_replay_pause()");
  await put("B", at(200));
  expect(await read()).toEqual(state(["A"], 100));
  const feed = await vi.waitFor(
    async () => {
      const answer = await fetch(`${base}/v1/changes`);
      const { data } = (await answer.json()) as { data: { reference: string }[] };
      expect(data).toHaveLength(2);
      return data;
    },
    { timeout: 60_000 },
  );
  expect(feed.map(({ reference }) => reference)).toEqual(["A", "B"]);

  await replica.query("select pg_wal_replay_resume()");
  await vi.waitFor(async () => expect(await read()).toEqual(state(["A", "B"], 200)), { timeout: 60_000 });
});
