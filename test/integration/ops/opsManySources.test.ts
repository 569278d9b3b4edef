import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { openOpsPages } from "../../support/pages/opsServer.ts";

const SOURCES = 200;

it("the overview shows 200 sources in as many statements as one, and small", async () => {
  // Makes held readings outdated at the next page.
  let heldBackMs = 0;
  const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + heldBackMs };
  const { pool, read } = await openOpsPages({ clock });
  expect((await read("/ops")).text).toContain("No source is configured yet.");
  let statements = 0;
  const query = pool.query.bind(pool) as (...given: unknown[]) => Promise<unknown>;
  pool.query = ((...given: unknown[]) => {
    statements += 1;
    return query(...given);
  }) as never;
  const readAnew = async () => {
    heldBackMs += 10_000;
    statements = 0;
    return { ...(await read("/ops")), statements };
  };
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
  const one = await readAnew();
  await add(2, SOURCES);
  const all = await readAnew();
  expect(all.text).toContain(`s${SOURCES} `);
  expect(all.statements).toBeGreaterThan(3);
  expect(all.statements).toBeLessThanOrEqual(one.statements);
  expect(all.page.length).toBeLessThan(300_000);
  expect(gzipSync(all.page).length).toBeLessThan(100_000);
  const begun = performance.now();
  await read("/ops");
  expect(performance.now() - begun).toBeLessThan(1_000);
});
