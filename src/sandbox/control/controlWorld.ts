import { z } from "zod";
import { parseInstant } from "../../domain/order/instant.ts";
import { control, fields } from "./control.ts";
import type { Control, ControlDeps } from "./control.ts";
import { putEndpoint, readEndpoints } from "../events/event.sql.ts";
import type { FaultsPatch } from "./faults.ts";
import { defaultPast, seedOrders } from "../seed/seedOrders.ts";
import { setFleetSpeed } from "../fleet/fleet.ts";
import { readOverview } from "../ui/overview.ts";
import { createWorld, saveFleetSpeed } from "../world/world.sql.ts";
import { refused } from "../api/errors.ts";

const SEEDED_COUNT_MAX = 5_000_000;
const none = z.strictObject({});
const dialsSchema = z.strictObject({
  speed: z.coerce.number().min(0).max(100_000).optional(),
  ordersPerMinute: z.coerce.number().min(0).max(60_000).optional(),
  retryBaseMs: z.coerce.number().int().min(1).max(3_600_000).optional(),
});
const pastSchema = z.strictObject({
  orders: fields.count(SEEDED_COUNT_MAX),
  organization: fields.organization,
  mode: fields.mode,
  since: z.string().optional(),
  until: z.string().optional(),
});

export function makeWorldControls(deps: ControlDeps): readonly Control[] {
  const { state, loop, journal } = deps;
  return [
    control(["GET", "/state", "Everything at a glance"], none, () => readOverview(deps)),
    control(
      ["POST", "/reset", "A new world from the seed; webhook endpoints stay, faults end"],
      z.strictObject({ seed: z.coerce.number().int().min(0).max(2_147_483_647).optional() }),
      async ({ seed }) => {
        await resetWorld(deps, seed ?? state.dials.seed);
        return readOverview(deps);
      },
    ),
    control(["POST", "/seed", "Adds past orders, without events"], pastSchema, (given) =>
      seedPast(deps, given),
    ),
    control(["GET", "/faults", "The faults that are on"], none, () =>
      Promise.resolve(state.faults.current()),
    ),
    control(
      ["POST", "/faults", "Sets the named faults and keeps the others"],
      z.record(z.string(), z.unknown()),
      (patch) => {
        const faults = state.faults.set(patch as FaultsPatch);
        loop.wake();
        return Promise.resolve(faults);
      },
    ),
    control(["DELETE", "/faults", "Ends all faults"], none, () => {
      deps.faultTimer.reset();
      return Promise.resolve(state.faults.clear());
    }),
    control(["POST", "/dials", "Speed of the fleet, traffic, first retry"], dialsSchema, (given) =>
      turnDials(deps, given),
    ),
    control(
      ["POST", "/clock", "Advances the virtual clock"],
      z.strictObject({ advanceMs: fields.ms }),
      async ({ advanceMs }) => {
        if (state.clock.kind === "real") {
          throw refused(409, "real_clock", "The sandbox runs on the real clock.");
        }
        await loop.advance(advanceMs);
        return readOverview(deps);
      },
    ),
    control(["POST", "/idle", "Answers when nothing is due or under way"], none, async () => {
      await loop.idle();
      return readOverview(deps);
    }),
    control(["GET", "/requests", "The newest requests, and counts of all"], none, () =>
      Promise.resolve({ counts: journal.counts(), requests: journal.entries() }),
    ),
    control(["DELETE", "/requests", "Empties the journal"], none, () => {
      journal.clear();
      return Promise.resolve({ counts: {}, requests: [] });
    }),
  ];
}

async function resetWorld(deps: ControlDeps, seed: number): Promise<void> {
  const { state, loop, journal, limiter, faultTimer, traffic } = deps;
  await loop.pause(async () => {
    await state.write(async (connection) => {
      const endpoints = await readEndpoints(connection);
      await createWorld(connection, seed);
      await saveFleetSpeed(connection, state.dials.fleetSpeed);
      for (const endpoint of endpoints) await putEndpoint(connection, endpoint);
    });
    await state.directory.reload(state.pool);
    state.dials.seed = seed;
    state.faults.clear();
    state.clock.restart();
    faultTimer.reset();
    journal.clear();
    limiter.reset();
    traffic.restart();
  });
}

async function seedPast({ state }: ControlDeps, given: z.infer<typeof pastSchema>): Promise<unknown> {
  const { orders, organization, mode, since, until } = given;
  state.directory.getOrganization(organization);
  const past = defaultPast(state.clock.now());
  const made = await seedOrders(state, {
    organizationId: organization,
    livemode: mode === "live",
    count: orders,
    since: since === undefined ? past.since : parseInstant(since),
    until: until === undefined ? past.until : parseInstant(until),
  });
  state.wake();
  return { orders: made };
}

async function turnDials(deps: ControlDeps, given: z.infer<typeof dialsSchema>): Promise<unknown> {
  const { state, loop, traffic } = deps;
  const { speed, ordersPerMinute, retryBaseMs } = given;
  if (ordersPerMinute !== undefined && ordersPerMinute !== state.dials.ordersPerMinute) {
    state.dials.ordersPerMinute = ordersPerMinute;
    traffic.restart();
  }
  if (retryBaseMs !== undefined) state.dials.retryBaseMs = retryBaseMs;
  if (speed !== undefined && speed !== state.dials.fleetSpeed) await setFleetSpeed(state, speed);
  loop.wake();
  return state.dials;
}
