import { expect, it } from "vitest";
import { requestPeriod, readRequest } from "../../../../src/poll/periodRequests.sql.ts";
import { startVirtualWorld, withClockOff, type VirtualWorld } from "../../../support/virtual/virtualTime.ts";

const MINUTE_MS = 60_000;
const SECOND_NANOS = 10n ** 9n;
const DAY_SECONDS = 86_400;

/** What the database says of the source, at the virtual present. */
async function look({ pool, sandbox }: VirtualWorld) {
  const { rows } = await pool.query<{ safe: string; off: number | null; ahead: number; refuted: number }>(
    `select (select safe_through from mirror.poll_state) as safe,
       (select clock_error_seconds from mirror.poll_state) as off,
       (select count(*)::int from mirror.orders where horizon > $1) as ahead,
       (select count(*)::int from mirror.history where verdict = 'refuted' or refuted) as refuted`,
    [sandbox.now()],
  );
  const { safe, off, ahead, refuted } = rows[0]!;
  return { safe: BigInt(safe), off: off && Math.round(off / 60) * 60, ahead, refuted };
}

it("a provider's clock that is a day ahead for two minutes proves and freezes nothing", async () => {
  const world = await startVirtualWorld({ speed: 1, trafficPerMinute: 30 });
  const { clock, sandbox } = world;
  await world.steer("POST", "/seed", { orders: 200 });
  world.startPoller("one");
  await clock.runUntil(5 * MINUTE_MS);
  const before = await look(world);
  expect(before).toMatchObject({ off: null, ahead: 0, refuted: 0 });
  expect(sandbox.now() - before.safe).toBeLessThan(480n * SECOND_NANOS);

  world.spoil(withClockOff(DAY_SECONDS));
  await clock.runUntil(5 * MINUTE_MS + 130_000);
  const during = await look(world);
  expect(during).toMatchObject({ off: DAY_SECONDS, ahead: 0, refuted: 0 });
  expect(during.safe).toBeLessThanOrEqual(sandbox.now());

  world.spoil();
  await clock.runUntil(9 * MINUTE_MS);
  const after = await look(world);
  expect(after).toMatchObject({ off: null, ahead: 0 });
  expect(after.safe).toBeGreaterThan(before.safe);

  await clock.runUntil(20 * MINUTE_MS);
  expect(await world.falseClaims((await look(world)).safe)).toEqual([]);
  expect(await look(world)).toMatchObject({ off: null, ahead: 0, refuted: 0 });
  expect(sandbox.now() - (await look(world)).safe).toBeLessThan(480n * SECOND_NANOS);
});

it("a verification says what the provider shows, also where a stored horizon does not allow the repair", async () => {
  const world = await startVirtualWorld({ speed: 0 });
  const { clock, pool, sandbox } = world;
  const start = sandbox.now();
  await world.steer("POST", "/seed", { orders: 20 });
  world.startPoller("one");
  await clock.runUntil(20 * MINUTE_MS);
  // As if a clock that is just trusted had dated the reads of another state.
  await pool.query("alter table mirror.orders disable trigger orders_only_grow");
  await pool.query("update mirror.orders set version = version - 1, hash = '\\x00', horizon = $1", [
    sandbox.now() + 30n * SECOND_NANOS,
  ]);
  const requestId = await requestPeriod(pool, {
    kind: "verification",
    sourceId: "live",
    since: start - 86_400n * 40n * SECOND_NANOS,
    until: sandbox.now() - 600n * SECOND_NANOS,
  });
  await clock.runUntil(21 * MINUTE_MS);
  expect(await readRequest(pool, requestId)).toMatchObject({ differed: 20 });
});
