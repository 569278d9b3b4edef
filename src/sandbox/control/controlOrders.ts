import { z } from "zod";
import { control, fields } from "./control.ts";
import type { Control, ControlDeps } from "./control.ts";
import { readAttempts, readCharge, readEvents, readOrdersAfter } from "./control.sql.ts";
import { moveOrders } from "../api/orderBook.ts";
import type { ChangePlan } from "../api/orderBook.ts";
import { showOrder } from "../api/orderRow.ts";
import type { OrderRow, Status } from "../api/orderRow.ts";
import { readAnyOrder, readLateChange } from "../api/order.sql.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import { assertCancellable, mustAdvance } from "../api/singleOrders.ts";
import { resendEvent } from "../events/emitEvents.ts";
import { runScenario, scenarioSchema } from "./runScenario.ts";
import { canTakeOrders, makeOrders } from "../fleet/traffic.ts";
import { refused } from "../api/errors.ts";

const ORDERS_MADE_MAX = 100_000;
const PAGE_MAX = 10_000;
const EVENTS_DEFAULT = 50;
const EVENTS_MAX = 5_000;
const none = z.strictObject({});
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
export function makeOrderControls({ state, faultTimer }: ControlDeps): readonly Control[] {
  return [
    control(["POST", "/orders", "Creates plausible orders"], makeSchema, (request) =>
      orderSome(state, request),
    ),
    control(
      ["GET", "/orders", "The true state: all orders of an organization and mode, in pages"],
      truthSchema,
      (given) => showTruth(state, given),
    ),
    control(["GET", "/orders/:reference", "One order, its charge and its events"], none, (_given, params) =>
      showOne(state, params["reference"] ?? ""),
    ),
    control(
      ["POST", "/orders/:reference/step", "The fleet takes the next step"],
      z.strictObject(planFields),
      (plan, { reference = "" }) => changeStatus(state, reference, mustAdvance, plan),
    ),
    control(
      ["POST", "/orders/:reference/cancel", "The fleet or the business cancels"],
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
    control(
      ["GET", "/events", "The newest events with their deliveries"],
      z.strictObject({
        reference: z.string().max(255).optional(),
        limit: fields.count(EVENTS_MAX).default(EVENTS_DEFAULT),
      }),
      ({ reference = null, limit }) => readEvents(state.pool, { reference, limit }),
    ),
    control(["GET", "/deliveries/:delivery", "The attempts of one delivery"], none, (_given, params) =>
      readAttempts(state.pool, Number(params["delivery"]) || 0),
    ),
    control(["POST", "/events/:event/resend", "Sends an event again"], none, async (_given, params) => {
      const sent = await state.write((connection) => resendEvent(state, connection, params["event"] ?? ""));
      state.wake();
      return { deliveries: sent };
    }),
    control(
      ["POST", "/scenarios", "Triggers a scenario: its name, a reference and its options"],
      scenarioSchema,
      (given) => runScenario(state, faultTimer, given),
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
    charged: await readCharge(state.pool, row.number),
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
