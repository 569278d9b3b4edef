import { z } from "zod";
import type { Connection } from "../world/database.ts";
import { readEvents } from "./control.sql.ts";
import type { FaultTimer } from "./faultTimer.ts";
import { moveOrders, patchOrder } from "../api/orderBook.ts";
import type { OrderRow } from "../api/orderRow.ts";
import { readAnyOrder, readLateChange } from "../api/order.sql.ts";
import { resendEvent } from "../events/emitEvents.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import { SCENARIOS } from "./scenarios.ts";
import type { Scenario, ScenarioOptions, ScenarioStep } from "./scenarios.ts";
import { assertCancellable, mustAdvance } from "../api/singleOrders.ts";
import { makeOrders } from "../fleet/traffic.ts";
import { refused } from "../api/errors.ts";

/** The scenario, the affected order (default: a new live one of the organization `sandbox`), and numeric options. */
export const scenarioSchema = z.looseObject({
  scenario: z.string().max(100),
  reference: z.string().max(255).optional(),
});

/** A report of what was done, for people. */
export type ScenarioReport = Awaited<ReturnType<typeof runScenario>>;

/** Throws RefusedRequestError for an unknown or unsuitable scenario, order or option, before anything happens. */
export async function runScenario(
  state: SandboxState,
  faultTimer: FaultTimer,
  { scenario: name, reference: named, ...given }: z.infer<typeof scenarioSchema>,
) {
  const scenario = findScenario(name);
  const options = readOptions(scenario, given);
  const reference = named ?? (await makeSubject(state));
  const steps = scenario.steps(options);
  const { before, after } = await state.write(async (connection) => {
    const first = await findSubject(connection, reference);
    assertPossible(first, steps);
    for (const step of steps) {
      if (step.kind === "faults") faultTimer.setFor(step.patch, step.forMs);
    }
    let row = first;
    for (const step of steps) row = await doStep(state, connection, row, step);
    return { before: first, after: row };
  });
  state.wake();
  return {
    scenario: scenario.name,
    reference,
    summary: scenario.summary,
    expect: scenario.expect,
    options,
    from: before.status,
    to: after.status,
  };
}

/** Throws for an unknown scenario, and lists all names. */
function findScenario(name: string): Scenario {
  const scenario = SCENARIOS.find((each) => each.name === name);
  if (scenario) return scenario;
  const names = SCENARIOS.map((each) => each.name).join(", ");
  throw refused(404, "scenario_not_found", `Unknown scenario. Known scenarios: ${names}.`);
}

interface OptionRule {
  readonly rule: string;
  readonly fits: (number: number) => boolean;
}
const MILLISECONDS: OptionRule = {
  rule: "milliseconds from 0 to 86400000, a day",
  fits: (number) => number >= 0 && number <= 86_400_000,
};
const OPTION_RULES: Readonly<Record<string, OptionRule>> = {
  copies: {
    rule: "a whole number from 1 to 100",
    fits: (number) => Number.isInteger(number) && number >= 1 && number <= 100,
  },
  share: { rule: "a number from 0 to 1", fits: (number) => number >= 0 && number <= 1 },
};

function readOptions(scenario: Scenario, given: Readonly<Record<string, unknown>>): ScenarioOptions {
  const options: Record<string, number> = { ...scenario.options };
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(options, name)) {
      const known = Object.keys(scenario.options).join(", ") || "none";
      throw refused(
        422,
        "unknown_option",
        `The scenario ${scenario.name} takes these numeric options: ${known}.`,
      );
    }
    const { rule, fits } = OPTION_RULES[name] ?? MILLISECONDS;
    const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
    if (typeof number !== "number" || !fits(number))
      throw refused(422, "invalid_request", `The option ${name} must be ${rule}.`);
    options[name] = number;
  }
  return options;
}

async function makeSubject(state: SandboxState): Promise<string> {
  const [row] = await makeOrders(state, {
    organizationId: "sandbox",
    livemode: true,
    count: 1,
    origin: "api",
  });
  if (!row) throw new TypeError("an order was added but none came back");
  return row.reference;
}

async function findSubject(connection: Connection, reference: string): Promise<OrderRow> {
  const row = await readAnyOrder(connection, reference);
  if (!row) {
    throw refused(404, "order_not_found", "No order that readers can see has this reference.");
  }
  return (await readLateChange(connection, row.number)) ?? row;
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
  switch (step.kind) {
    case "move":
    case "cancel": {
      const status = step.kind === "move" ? mustAdvance(row) : "cancelled";
      const [moved] = await moveOrders(state, connection, [{ row, status }], step.plan);
      return moved ?? row;
    }
    case "change":
      return patchOrder(state, connection, row, { phone: `+31 6 1111 ${String(row.number).slice(-4)}` });
    case "resend": {
      const events = await readEvents(connection, { reference: row.reference, limit: 100 });
      const oldest = events.at(-1);
      if (oldest) await resendEvent(state, connection, oldest.eventId);
      return row;
    }
    case "faults":
      return row;
  }
}
