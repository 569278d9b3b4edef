import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { openOpsPages } from "../../support/pages/opsServer.ts";

const SOURCES = 200;

it("shows 200 sources in as many statements as one, and small", async () => {
  const { pool, read } = await openOpsPages();
  const statements: string[] = [];
  const query = pool.query.bind(pool) as (...given: unknown[]) => Promise<unknown>;
  pool.query = ((...given: unknown[]) => {
    statements.push(typeof given[0] === "string" ? given[0] : (given[0] as { text: string }).text);
    return query(...given);
  }) as never;
  const add = (from: number, to: number) =>
    query(`
      insert into mirror.sources (source_id, mode, base_url)
      select 's' || n, 'live', 'https://provider.example' from generate_series(${from}, ${to}) n;
      insert into mirror.poll_state (source_id, history_since, polled_through, safe_through, last_cycle_ended_at)
      select 's' || n, 1, (extract(epoch from now()) * 1000000000)::bigint, (extract(epoch from now()) * 1000000000)::bigint, now()
      from generate_series(${from}, ${to}) n;
      insert into mirror.leases (name, holder, fence, expires_at)
      select 'poll:s' || n, 'host:1', 1, now() + interval '1 hour' from generate_series(${from}, ${to}) n`);
  await add(1, 1);
  await read("/ops");
  const forOne = statements.splice(0).length;
  await add(2, SOURCES);
  // The reading of one source is held for four seconds.
  await expect
    .poll(async () => (await read("/ops")).text.includes(`s${SOURCES} `), { timeout: 20_000 })
    .toBe(true);
  // Until a page reads everything again, and not only the latest decisions.
  const readAll = async () => {
    statements.splice(0);
    await read("/ops");
    return statements.some((statement) => statement.includes("mirror.leases"));
  };
  await expect.poll(readAll, { timeout: 20_000, interval: 1_000 }).toBe(true);
  const counted = statements.length;
  const { page } = await read("/ops");
  expect(counted).toBeGreaterThan(3);
  expect(counted).toBeLessThanOrEqual(forOne);
  expect(page.length).toBeLessThan(300_000);
  expect(gzipSync(page).length).toBeLessThan(100_000);
  const begun = performance.now();
  await read("/ops");
  expect(performance.now() - begun).toBeLessThan(1_000);
}, 60_000);
