import { addMillis, refused } from "../world/state.ts";
import type { SandboxState } from "../world/state.ts";
import { z } from "zod";
import { readEvents } from "./control.sql.ts";
import { moveOrders, patchOrder } from "../api/orderBook.ts";
import type { ChangePlan } from "../api/orderBook.ts";
import { readAnyOrder, readLateChange } from "../api/orders.sql.ts";
import { resendEvent } from "../events/events.ts";
import { assertCancellable, mustAdvance } from "../api/answers.ts";
import { makeOrders } from "../world/fleet.ts";
import type { FaultsPatch, Faults } from "./faults.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { Connection } from "../world/world.sql.ts";
import type { OrderRow } from "../api/orderRow.ts";

/** One step of a scenario, on its order or on the whole provider. */
export type ScenarioStep =
  | { readonly kind: "move"; readonly plan: ChangePlan }
  | { readonly kind: "cancel"; readonly plan: ChangePlan }
  /** Changes the customer's phone; no event announces it. */
  | { readonly kind: "change" }
  /** Sends the order's oldest event again. */
  | { readonly kind: "resend" }
  | { readonly kind: "faults"; readonly patch: FaultsPatch; readonly forMs: number };

export type ScenarioOptions = Readonly<Record<string, number>>;

/** A named way to misbehave; see runScenario. */
export interface Scenario {
  readonly name: string;
  /** What the provider does. */
  readonly summary: string;
  /** How a correct mirror reacts. */
  readonly expect: string;
  readonly options: ScenarioOptions;
  readonly steps: (options: ScenarioOptions) => readonly ScenarioStep[];
}

const move = (plan: ChangePlan = {}): ScenarioStep => ({ kind: "move", plan });
/** Longer than the polling interval: the event of the next status would otherwise reveal the lost one. */
const REST_MS = 60_000;
const STORM_MS = 20_000;
/** Faults for a while, during which the order moves on without an event. */
const storm = (patch: FaultsPatch, forMs = STORM_MS): readonly ScenarioStep[] => [
  { kind: "faults", patch, forMs },
  move({ lose: true }),
];

export const SCENARIOS: readonly Scenario[] = [
  {
    name: "lost-webhook",
    summary: "The order moves to the next status and stays there for a minute; its event is never sent.",
    expect: "The next poll brings the status and counts one lost event.",
    options: {},
    steps: () => [move({ lose: true, restMs: REST_MS })],
  },
  {
    name: "lost-cancellation",
    summary: "The fleet cancels the order; the event is never sent.",
    expect: "The next poll brings the cancellation.",
    options: {},
    steps: () => [{ kind: "cancel", plan: { lose: true } }],
  },
  {
    name: "duplicate",
    summary: "The order moves to the next status; its event is sent several times.",
    expect: "One is applied, the others are duplicates that change nothing.",
    options: { copies: 3 },
    steps: ({ copies }) => [move({ copies })],
  },
  {
    name: "out-of-order",
    summary: "The order moves two statuses forward; the first event arrives after the second.",
    expect: "The second is applied; the first is stale when it arrives.",
    options: { delayMs: 3_000 },
    steps: ({ delayMs }) => [move({ delayMs }), move({ delayMs: 0 })],
  },
  {
    name: "delayed-webhook",
    summary: "The order moves to the next status; its event is sent late.",
    expect:
      "A poll finds the change first; the event then changes nothing, and the loss is no longer counted.",
    options: { delayMs: 60_000 },
    steps: ({ delayMs }) => [move({ delayMs })],
  },
  {
    name: "bad-signature",
    summary: "The order moves to the next status; every attempt to send its event has a wrong signature.",
    expect: "The receiver refuses each attempt; the next poll brings the status.",
    options: {},
    steps: () => [move({ corrupt: true })],
  },
  {
    name: "stale-redelivery",
    summary: "The order moves two statuses forward; then its oldest event is sent again.",
    expect: "The old event is a duplicate and changes nothing.",
    options: {},
    steps: () => [move(), move(), { kind: "resend" }],
  },
  {
    name: "silent-change",
    summary: "The order's phone number changes, without an event.",
    expect: "The next poll brings the change, and no lost event is counted.",
    options: {},
    steps: () => [{ kind: "change" }],
  },
  {
    name: "late-commit",
    summary:
      "The order moves to the next status without an event, and readers see the change only later, under its old updatedAt.",
    expect: "A poll that has passed that time finds it through its overlap, or the delayed sweep does.",
    options: { lateMs: 8_000 },
    steps: ({ lateMs }) => [move({ lateMs, lose: true })],
  },
  {
    name: "future-timestamp",
    summary: "The order moves to the next status; its updatedAt is ahead of the provider's own clock.",
    expect: "It is applied, and the polling window does not jump ahead with it.",
    options: { aheadMs: 120_000 },
    steps: ({ aheadMs }) => [move({ misstampMs: aheadMs })],
  },
  {
    name: "same-timestamp",
    summary: "The order moves two statuses forward within one updatedAt; the second event is lost.",
    expect: "A settled read decides; the history shows a conflict.",
    options: {},
    steps: () => [move(), move({ sameTimestamp: true, lose: true })],
  },
  {
    name: "server-error-storm",
    summary: "All requests are answered with 503 for a while; meanwhile the order moves on without an event.",
    expect: "Polling backs off, resumes where it left off, and loses nothing.",
    options: { forMs: STORM_MS, share: 1 },
    steps: ({ forMs, share }) => storm({ failShare: share, failStatus: 503 }, forMs),
  },
  {
    name: "webhook-chaos",
    summary:
      "For a while events are lost, duplicated, late and out of order; the order moves two statuses forward.",
    expect: "Afterwards the mirror equals the provider.",
    options: { forMs: STORM_MS, share: 0.3 },
    steps: ({ forMs = STORM_MS, share }) => [
      {
        kind: "faults",
        patch: { loseShare: share, duplicateShare: share, delayShare: share, reorderShare: share },
        forMs,
      },
      move(),
      move(),
    ],
  },
];

export type FaultTimer = ReturnType<typeof makeFaultTimer>;

/** Faults that end automatically. */
export function makeFaultTimer({ clock, faults }: Pick<SandboxState, "clock" | "faults">) {
  let running: { endsAt: Instant; before: FaultsPatch }[] = [];
  return {
    /** Applies `patch` for `ms`; then its faults return to their previous values. */
    setFor: (patch: FaultsPatch, ms: number) => {
      const before = pick(faults.current(), Object.keys(patch) as (keyof Faults)[]);
      faults.set(patch);
      running.push({ endsAt: addMillis(clock.now(), ms), before });
    },
    /** Ends the expired ones. */
    run: () => {
      const over = running.filter(({ endsAt }) => endsAt <= clock.now());
      running = running.filter((each) => !over.includes(each));
      // The latest first: each restores the values it found.
      for (const { before } of over.reverse()) faults.set(before);
    },
    dueAt: () =>
      running.reduce<Instant | null>(
        (first, { endsAt }) => (first === null || endsAt < first ? endsAt : first),
        null,
      ),
    reset: () => {
      running = [];
    },
  };
}

function pick(faults: Faults, names: readonly (keyof Faults)[]): FaultsPatch {
  return Object.fromEntries(names.map((name) => [name, faults[name]]));
}

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
