import { refused } from "../api/refusal.ts";
import { z } from "zod";
import { assertCancellable, mustAdvance } from "../api/answers.ts";
import { moveOrders, type ChangePlan } from "../api/orderBook.ts";
import { readAnyOrder } from "../api/orders.sql.ts";
import { makeOrders } from "../world/fleet.ts";
import { type SandboxState } from "../world/state.ts";

/** A step of a scenario on its order: to the next status, or cancelled by the fleet. */
export interface ScenarioStep {
  readonly kind: "move" | "cancel";
  readonly plan: ChangePlan;
}

/** A named way to misbehave. Storms of refusals and the like are faults; this is what happens to one order. */
interface Scenario {
  readonly name: string;
  /** The provider's part of the scenario. */
  readonly summary: string;
  /** The reaction of a correct mirror. */
  readonly expect: string;
  readonly steps: readonly ScenarioStep[];
}

const move = (plan: ChangePlan = {}): ScenarioStep => ({ kind: "move", plan });
/** A pause longer than the polling interval: the event of the next status would otherwise reveal the lost one. */
const REST_MS = 60_000;

export const SCENARIOS: readonly Scenario[] = [
  {
    name: "lost-webhook",
    summary:
      "The order moves two statuses forward and stays there for a minute; the second event is never sent.",
    expect: "The next poll brings the second status, and one lost event is counted.",
    // A mirror cannot tell of the first state in which it sees an order whether an event of it was lost.
    steps: [move({ lose: false }), move({ lose: true, restMs: REST_MS })],
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
    steps: [move({ lose: false, copies: 3 })],
  },
  {
    name: "out-of-order",
    summary: "The order moves two statuses forward; the first event arrives three seconds after the second.",
    expect: "The second is applied; the first is stale when it arrives.",
    steps: [move({ lose: false, delayMs: 3_000 }), move({ lose: false, delayMs: 0 })],
  },
];

/** The scenario, and the affected order: by default a new live one of the organization `sandbox`. */
export const scenarioSchema = z.strictObject({
  scenario: z.string().max(100),
  reference: z.string().max(255).optional(),
});

/** A report of what was done, for people. */
export type ScenarioReport = Awaited<ReturnType<typeof runScenario>>;

/** Throws Refusal for an unknown or unsuitable scenario or order, before anything happens. */
export async function runScenario(
  state: SandboxState,
  { scenario: name, reference: named }: z.infer<typeof scenarioSchema>,
) {
  const scenario = SCENARIOS.find((each) => each.name === name);
  if (!scenario) {
    const names = SCENARIOS.map((each) => each.name).join(", ");
    throw refused(404, "scenario_not_found", `Unknown scenario. Known scenarios: ${names}.`);
  }
  const { summary, expect, steps } = scenario;
  const subject = { organizationId: "sandbox", livemode: true, count: 1, origin: "api" } as const;
  const made = named === undefined ? await makeOrders(state, subject) : [];
  const reference = named ?? made[0]?.reference ?? "";
  const { before, after } = await runSteps(state, reference, steps);
  return { scenario: name, reference, summary, expect, from: before.status, to: after.status };
}

/** Does the steps on the order with this reference, or none of them if one is impossible. */
export async function runSteps(state: SandboxState, reference: string, steps: readonly ScenarioStep[]) {
  const result = await state.write(async (connection) => {
    const before = await readAnyOrder(connection, reference);
    if (!before) throw refused(404, "order_not_found", "No order has this reference.");
    let after = before;
    // An impossible step takes back the others, because all are in one transaction.
    for (const { kind, plan } of steps) {
      if (kind === "cancel") assertCancellable(after, "fleet");
      const status = kind === "cancel" ? "cancelled" : mustAdvance(after);
      const [moved] = await moveOrders(state, connection, [{ row: after, status }], plan);
      after = moved ?? after;
    }
    return { before, after };
  });
  state.wake();
  return result;
}
