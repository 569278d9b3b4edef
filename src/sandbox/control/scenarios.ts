import { z } from "zod";
import { assertCancellable, mustAdvance } from "../api/answers.ts";
import { moveOrders, patchOrder, type ChangePlan } from "../api/orderBook.ts";
import type { OrderRow } from "../api/orderRow.ts";
import { readAnyOrder } from "../api/orders.sql.ts";
import { resendEvent } from "../events/events.ts";
import { findAnnounced, readEvents } from "../events/events.sql.ts";
import { makeOrders } from "../world/fleet.ts";
import { refused, type SandboxState } from "../world/state.ts";
import type { Connection } from "../world/world.sql.ts";

/** One step of a scenario on its order. */
export type ScenarioStep =
  | { readonly kind: "move" | "cancel"; readonly plan: ChangePlan }
  /** Changes the customer's phone; no event announces it. */
  | { readonly kind: "change" }
  /** Sends the order's oldest event again. */
  | { readonly kind: "resend" };

/** A named way to misbehave. Storms of refusals and the like are faults; this is what happens to one order. */
interface Scenario {
  readonly name: string;
  /** What the provider does. */
  readonly summary: string;
  /** How a correct mirror reacts. */
  readonly expect: string;
  readonly steps: readonly ScenarioStep[];
  /** Needs an order of which an event arrived before; without a name, one is chosen. */
  readonly isOfAnnounced?: boolean;
}

const move = (plan: ChangePlan = {}): ScenarioStep => ({ kind: "move", plan });
/** Longer than the polling interval: the event of the next status would otherwise reveal the lost one. */
const REST_MS = 60_000;
const ORGANIZATION_ID = "sandbox";

export const SCENARIOS: readonly Scenario[] = [
  {
    name: "lost-webhook",
    summary: "The order moves to the next status and stays there for a minute; its event is never sent.",
    expect:
      "The next poll brings the status. It counts one lost event if the mirror knew the order before, as it does unless no order is under way.",
    steps: [move({ lose: true, restMs: REST_MS })],
    // A mirror cannot tell of the first state in which it sees an order whether an event of it was lost.
    isOfAnnounced: true,
  },
  {
    name: "lost-cancellation",
    summary: "The fleet cancels the order; the event is never sent.",
    expect: "The next poll brings the cancellation.",
    steps: [{ kind: "cancel", plan: { lose: true } }],
  },
  {
    name: "duplicate",
    summary: "The order moves to the next status; its event is sent three times.",
    expect: "One is applied, the others are duplicates that change nothing.",
    steps: [move({ copies: 3 })],
  },
  {
    name: "out-of-order",
    summary: "The order moves two statuses forward; the first event arrives three seconds after the second.",
    expect: "The second is applied; the first is stale when it arrives.",
    steps: [move({ delayMs: 3_000 }), move({ delayMs: 0 })],
  },
  {
    name: "bad-signature",
    summary: "The order moves to the next status; every attempt to send its event has a wrong signature.",
    expect: "The receiver refuses each attempt; the next poll brings the status.",
    steps: [move({ corrupt: true })],
  },
  {
    name: "stale-redelivery",
    summary: "The order moves two statuses forward; then its oldest event is sent again.",
    expect: "The old event is a duplicate and changes nothing.",
    steps: [move(), move(), { kind: "resend" }],
  },
  {
    name: "silent-change",
    summary: "The order's phone number changes, without an event.",
    expect: "The next poll brings the change, and no lost event is counted.",
    steps: [{ kind: "change" }],
  },
  {
    name: "late-commit",
    summary:
      "The order moves to the next status without an event, and readers see the change only eight seconds later, under its old updatedAt.",
    expect: "A later poll over that time finds it.",
    steps: [move({ lateMs: 8_000, lose: true })],
  },
  {
    name: "future-timestamp",
    summary:
      "The order moves to the next status; its updatedAt is two minutes ahead of the provider's own clock.",
    expect:
      "Its event goes to quarantine; the next poll brings the status, and the polling window does not jump ahead.",
    steps: [move({ misstampMs: 120_000 })],
  },
];

/** The scenario, and the affected order: by default a live one of the organization `sandbox`, a new one if that will do. */
export const scenarioSchema = z.strictObject({
  scenario: z.string().max(100),
  reference: z.string().max(255).optional(),
});

/** A report of what was done, for people. */
export type ScenarioReport = Awaited<ReturnType<typeof runScenario>>;

/** Throws RefusedRequestError for an unknown or unsuitable scenario or order, before anything happens. */
export async function runScenario(
  state: SandboxState,
  { scenario: name, reference: named }: z.infer<typeof scenarioSchema>,
) {
  const scenario = SCENARIOS.find((each) => each.name === name);
  if (!scenario) {
    const names = SCENARIOS.map((each) => each.name).join(", ");
    throw refused(404, "scenario_not_found", `Unknown scenario. Known scenarios: ${names}.`);
  }
  const { summary, expect, steps, isOfAnnounced = false } = scenario;
  const announced =
    isOfAnnounced && named === undefined ? await findAnnounced(state.pool, ORGANIZATION_ID) : undefined;
  const reference = named ?? announced ?? (await makeSubject(state));
  const { before, after } = await runSteps(state, reference, steps);
  return { scenario: name, reference, summary, expect, from: before.status, to: after.status };
}

/** Does the steps on the order with this reference, or none of them if one is impossible. */
export async function runSteps(state: SandboxState, reference: string, steps: readonly ScenarioStep[]) {
  const result = await state.write(async (connection) => {
    const before = await readAnyOrder(connection, "latest", reference);
    if (!before) throw refused(404, "order_not_found", "No order has this reference.");
    assertPossible(before, steps);
    let after = before;
    for (const step of steps) after = await doStep(state, connection, after, step);
    return { before, after };
  });
  state.wake();
  return result;
}

async function makeSubject(state: SandboxState): Promise<string> {
  const request = { organizationId: ORGANIZATION_ID, livemode: true, count: 1, origin: "api" } as const;
  const [row] = await makeOrders(state, request);
  if (!row) throw new TypeError("an order was added but none came back");
  return row.reference;
}

/** Checks the status of every step before anything is done. */
function assertPossible(row: OrderRow, steps: readonly ScenarioStep[]): void {
  let reached = row;
  for (const step of steps) {
    if (step.kind === "move") reached = { ...reached, status: mustAdvance(reached) };
    if (step.kind === "cancel") assertCancellable(reached, "fleet");
  }
}

async function doStep(
  state: SandboxState,
  connection: Connection,
  row: OrderRow,
  step: ScenarioStep,
): Promise<OrderRow> {
  if (step.kind === "change")
    return patchOrder(state, connection, row, { phone: `+31 6 1111 ${String(row.number).slice(-4)}` });
  if (step.kind === "resend") {
    const oldest = (await readEvents(connection, { reference: row.reference, limit: 100 })).at(-1);
    if (oldest) await resendEvent(state, connection, oldest.eventId);
    return row;
  }
  const status = step.kind === "move" ? mustAdvance(row) : "cancelled";
  const [moved] = await moveOrders(state, connection, [{ row, status }], step.plan);
  return moved ?? row;
}
