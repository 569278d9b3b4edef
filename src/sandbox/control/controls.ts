import { z } from "zod";
import { addSeconds, parseInstant } from "../../domain/order/instant.ts";
import { control, fields } from "./control.ts";
import type { Control, ControlDeps } from "./control.ts";
import { putEndpoint, readEndpoints } from "../events/events.sql.ts";
import { setFleetSpeed, canTakeOrders, makeOrders, seedOrders } from "../world/fleet.ts";
import { readOverview } from "./page.ts";
import { seedDirectory } from "../world/seedWorld.ts";
import { createWorld, saveFleetSpeed } from "../world/world.sql.ts";
import { refused } from "../world/state.ts";
import type { SandboxState } from "../world/state.ts";
import { readEvents, readOrdersAfter } from "./control.sql.ts";
import { moveOrders } from "../api/orderBook.ts";
import type { ChangePlan } from "../api/orderBook.ts";
import { showOrder } from "../api/orderRow.ts";
import type { OrderRow, Status } from "../api/orderRow.ts";
import { readAnyOrder, readLateChange } from "../api/orders.sql.ts";
import { assertCancellable, mustAdvance } from "../api/answers.ts";
import { resendEvent } from "../events/events.ts";
import { runScenario, scenarioSchema } from "./scenarios.ts";
import type { FaultsPatch } from "./faults.ts";

const SEEDED_COUNT_MAX = 1_000_000;
const PAST_SECONDS = 30 * 86_400;
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
    control(["get", "/state", "Everything at a glance"], fields.none, () => readOverview(deps)),
    control(
      ["post", "/reset", "A new world from the seed; webhook endpoints stay, faults end"],
      z.strictObject({ seed: z.coerce.number().int().min(0).max(2_147_483_647).optional() }),
      async ({ seed }) => {
        await resetWorld(deps, seed ?? state.dials.seed);
        return readOverview(deps);
      },
    ),
    control(["post", "/seed", "Adds past orders, without events"], pastSchema, (given) =>
      seedPast(deps, given),
    ),
    control(["get", "/faults", "The faults that are on"], fields.none, () => state.faults.current()),
    control(
      ["post", "/faults", "Sets the named faults and keeps the others"],
      z.record(z.string(), z.unknown()),
      (patch) => {
        const faults = state.faults.set(patch as FaultsPatch);
        loop.wake();
        return faults;
      },
    ),
    control(["delete", "/faults", "Ends all faults"], fields.none, () => {
      return state.faults.clear();
    }),
    control(["post", "/dials", "Speed of the fleet, traffic, first retry"], dialsSchema, (given) =>
      turnDials(deps, given),
    ),
    control(
      ["post", "/clock", "Advances the virtual clock"],
      z.strictObject({ advanceMs: fields.ms }),
      async ({ advanceMs }) => {
        if (state.clock.kind === "real") {
          throw refused(409, "real_clock", "The sandbox runs on the real clock.");
        }
        await loop.advance(advanceMs);
        return readOverview(deps);
      },
    ),
    control(["post", "/idle", "Answers when nothing is due or under way"], fields.none, async () => {
      await loop.idle();
      return readOverview(deps);
    }),
    control(["get", "/requests", "The newest requests, and counts of all"], fields.none, () => ({
      counts: journal.counts(),
      requests: journal.entries(),
    })),
    control(["delete", "/requests", "Empties the journal"], fields.none, () => {
      journal.clear();
      return { counts: {}, requests: [] };
    }),
  ];
}

async function resetWorld(deps: ControlDeps, seed: number): Promise<void> {
  const { state, loop, journal, limiter, traffic } = deps;
  await loop.pause(async () => {
    await state.write(async (connection) => {
      const endpoints = await readEndpoints(connection);
      await createWorld(connection, seed, seedDirectory(seed));
      await saveFleetSpeed(connection, state.dials.fleetSpeed);
      for (const endpoint of endpoints) await putEndpoint(connection, endpoint);
    });
    await state.directory.reload(state.pool);
    state.dials.seed = seed;
    state.faults.clear();
    state.clock.restart();
    journal.clear();
    limiter.reset();
    traffic.restart();
  });
}

async function seedPast({ state }: ControlDeps, given: z.infer<typeof pastSchema>): Promise<unknown> {
  const { orders, organization, mode, since, until } = given;
  state.directory.getOrganization(organization);
  const now = state.clock.now();
  const made = await seedOrders(state, {
    organizationId: organization,
    livemode: mode === "live",
    count: orders,
    since: since === undefined ? addSeconds(now, -PAST_SECONDS) : parseInstant(since),
    until: until === undefined ? now : parseInstant(until),
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

const ORDERS_MADE_MAX = 100_000;
const PAGE_MAX = 10_000;
const EVENTS_DEFAULT = 50;
const EVENTS_MAX = 5_000;
const planFields = {
  lose: fields.flag.optional(),
  copies: fields.count(100).optional(),
  delayMs: fields.ms.optional(),
  corrupt: fields.flag.optional(),
  lateMs: fields.ms.optional(),
  misstampMs: z.coerce.number().int().min(-86_400_000).max(86_400_000).optional(),
  sameTimestamp: fields.flag.optional(),
};
const makeSchema = z.strictObject({
  count: fields.count(ORDERS_MADE_MAX).default(1),
  organization: fields.organization,
  mode: fields.mode,
  branch: z.string().max(255).optional(),
});
const truthSchema = z.strictObject({
  organization: fields.organization,
  mode: fields.mode,
  after: z
    .string()
    .regex(/^\d{1,18}$/)
    .default("0"),
  limit: fields.count(PAGE_MAX).default(PAGE_MAX),
});

/** Orders, their moves by the fleet and the business, their events, and the scenarios. */
export function makeOrderControls({ state }: ControlDeps): readonly Control[] {
  return [
    control(["post", "/orders", "Creates plausible orders"], makeSchema, (request) =>
      orderSome(state, request),
    ),
    control(
      ["get", "/orders", "The true state: all orders of an organization and mode, in pages"],
      truthSchema,
      (given) => showTruth(state, given),
    ),
    control(
      ["get", "/orders/:reference", "One order, its charge and its events"],
      fields.none,
      (_given, params) => showOne(state, params["reference"] ?? ""),
    ),
    control(
      ["post", "/orders/:reference/step", "The fleet takes the next step"],
      z.strictObject(planFields),
      (plan, { reference = "" }) => changeStatus(state, reference, mustAdvance, plan),
    ),
    control(
      ["post", "/orders/:reference/cancel", "The fleet or the business cancels"],
      z.strictObject({ by: z.enum(["fleet", "business"]).default("fleet"), ...planFields }),
      ({ by, ...plan }, { reference = "" }) =>
        changeStatus(
          state,
          reference,
          (row) => {
            assertCancellable(row, by);
            return "cancelled";
          },
          plan,
        ),
    ),
    ...makeEventControls(state),
    control(
      ["post", "/scenarios", "Triggers a scenario: its name, and a reference"],
      scenarioSchema,
      (given) => runScenario(state, given),
    ),
  ];
}

function makeEventControls(state: SandboxState): readonly Control[] {
  return [
    control(
      ["get", "/events", "The newest events with their deliveries"],
      z.strictObject({
        reference: z.string().max(255).optional(),
        limit: fields.count(EVENTS_MAX).default(EVENTS_DEFAULT),
      }),
      ({ reference = null, limit }) => readEvents(state.pool, { reference, limit }),
    ),
    control(
      ["post", "/events/:event/resend", "Sends an event again"],
      fields.none,
      async (_given, params) => {
        const sent = await state.write((connection) => resendEvent(state, connection, params["event"] ?? ""));
        state.wake();
        return { deliveries: sent };
      },
    ),
  ];
}

async function orderSome(state: SandboxState, request: z.infer<typeof makeSchema>): Promise<unknown> {
  const { count, organization, mode, branch } = request;
  const at = branch === undefined ? undefined : state.directory.findBranch(organization, branch);
  const choices = at ? [at] : state.directory.branchesOf(organization);
  if ((branch !== undefined && !at) || !choices.some(canTakeOrders)) {
    throw refused(404, "branch_not_found", "No branch of that name takes orders.");
  }
  const rows = await makeOrders(state, {
    organizationId: organization,
    livemode: mode === "live",
    count,
    origin: "api",
    branchId: at?.branchId,
  });
  return { references: rows.map((row) => row.reference) };
}

async function showTruth(state: SandboxState, given: z.infer<typeof truthSchema>): Promise<unknown> {
  const { organization, mode, after, limit } = given;
  const rows = await readOrdersAfter(state.pool, {
    organizationId: organization,
    livemode: mode === "live",
    after: BigInt(after),
    limit,
  });
  const last = rows.at(-1);
  return {
    orders: rows.map((row) => showOrder(state, row)),
    next: last && rows.length === limit ? String(last.number) : null,
  };
}

async function showOne(state: SandboxState, reference: string): Promise<unknown> {
  const row = await readAnyOrder(state.pool, reference);
  if (!row) throw refused(404, "order_not_found", "No order has this reference.");
  return {
    order: showOrder(state, row),
    charged: row.livemode,
    events: await readEvents(state.pool, { reference, limit: EVENTS_DEFAULT }),
  };
}

async function changeStatus(
  state: SandboxState,
  reference: string,
  decide: (row: OrderRow) => Status,
  plan: ChangePlan,
): Promise<unknown> {
  const row = await state.write(async (connection) => {
    const seen = await readAnyOrder(connection, reference);
    if (!seen) throw refused(404, "order_not_found", "No order has this reference.");
    const before = (await readLateChange(connection, seen.number)) ?? seen;
    const [after] = await moveOrders(state, connection, [{ row: before, status: decide(before) }], plan);
    return after ?? before;
  });
  state.wake();
  return showOrder(state, row);
}
