import { randomBytes } from "node:crypto";
import { refuseField, refused } from "../api/refusal.ts";
import { z } from "zod";
import { addSeconds, parseInstant } from "../../domain/order/instant.ts";
import { showOrder } from "../api/orderRow.ts";
import { readOrdersAfter } from "../api/orders.sql.ts";
import { setWebhook } from "../events/events.ts";
import { readEvents } from "../events/events.sql.ts";
import { PLANS, SUBSCRIPTIONS, type Branch, type DirectoryContent } from "../world/directory.ts";
import { geocode } from "../world/gazetteer.ts";
import { makeOrders, seedOrders, setFleetSpeed } from "../world/fleet.ts";
import { type SandboxState } from "../world/state.ts";
import { control, fields, type Control, type ControlDeps } from "./control.ts";
import type { FaultsPatch } from "./faults.ts";
import { readOverview } from "./page.ts";
import { runScenario, runSteps, scenarioSchema, type ScenarioStep } from "./scenarios.ts";

const SEEDED_COUNT_MAX = 1_000_000;
const PAST_SECONDS = 30 * 86_400;
const ADVANCE_MS_MAX = 366 * 86_400_000;
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

export function makeControls(deps: ControlDeps): readonly Control[] {
  return [
    ...makeWorldControls(deps),
    ...makeAccessControls(deps),
    ...makeDashboardControls(deps),
    ...makeOrderControls(deps),
  ];
}

function makeWorldControls(deps: ControlDeps): readonly Control[] {
  const { state, loop } = deps;
  return [
    control(["get", "/state", "Everything at a glance"], fields.none, () => readOverview(deps)),
    control(["post", "/seed", "Adds past orders, without events"], pastSchema, (given) =>
      seedPast(deps, given),
    ),
    control(
      ["post", "/faults", "Sets the named faults and keeps the others"],
      z.record(z.string(), z.unknown()),
      (patch) => {
        const faults = state.faults.set(patch as FaultsPatch);
        loop.wake();
        return faults;
      },
    ),
    control(["post", "/dials", "Speed of the fleet, traffic, first retry"], dialsSchema, (given) =>
      turnDials(deps, given),
    ),
    control(
      ["post", "/clock", "Advances the virtual clock"],
      z.strictObject({ advanceMs: z.coerce.number().int().min(0).max(ADVANCE_MS_MAX) }),
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
  ];
}

async function seedPast({ state }: ControlDeps, given: z.infer<typeof pastSchema>): Promise<unknown> {
  const { orders, organization, mode, since, until } = given;
  state.directory.getOrganization(organization);
  const now = state.clock.now();
  const period = {
    since: since === undefined ? addSeconds(now, -PAST_SECONDS) : parseInstant(since),
    until: until === undefined ? now : parseInstant(until),
  };
  if (period.since >= period.until || period.until > now)
    throw refuseField("The period must be in the past.");
  const livemode = mode === "live";
  await seedOrders(state, { organizationId: organization, livemode, count: orders, ...period });
  state.wake();
  return { orders };
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
const makeSchema = z.strictObject({
  count: fields.count(ORDERS_MADE_MAX).default(1),
  organization: fields.organization,
  mode: fields.mode,
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
function makeOrderControls({ state }: ControlDeps): readonly Control[] {
  return [
    control(
      ["post", "/orders", "Creates plausible orders"],
      makeSchema,
      async ({ count, organization: organizationId, mode }) => {
        state.directory.getOrganization(organizationId);
        const owner = { organizationId, livemode: mode === "live", origin: "api" } as const;
        const rows = await makeOrders(state, { ...owner, count });
        return { references: rows.map((row) => row.reference) };
      },
    ),
    control(
      ["get", "/orders", "The true state: all orders of an organization and mode, in pages"],
      truthSchema,
      (given) => showTruth(state, given),
    ),
    control(
      ["post", "/orders/:reference/step", "The fleet takes the next step; its event may be lost"],
      z.strictObject({ lose: fields.flag.optional() }),
      (plan, { reference = "" }) => doStep(state, reference, { kind: "move", plan }),
    ),
    control(
      ["post", "/orders/:reference/cancel", "The fleet cancels"],
      fields.none,
      (_given, { reference = "" }) => doStep(state, reference, { kind: "cancel", plan: {} }),
    ),
    control(
      ["get", "/events", "The newest events with their deliveries"],
      z.strictObject({
        reference: z.string().max(255).optional(),
        limit: fields.count(EVENTS_MAX).default(EVENTS_DEFAULT),
      }),
      ({ reference = null, limit }) => readEvents(state.pool, { reference, limit }),
    ),
    control(
      ["post", "/scenarios", "Triggers a scenario: its name, and a reference"],
      scenarioSchema,
      (given) => runScenario(state, given),
    ),
  ];
}

async function showTruth(state: SandboxState, given: z.infer<typeof truthSchema>): Promise<unknown> {
  const { organization, mode, after, limit } = given;
  state.directory.getOrganization(organization);
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

async function doStep(state: SandboxState, reference: string, step: ScenarioStep): Promise<unknown> {
  const { after } = await runSteps(state, reference, [step]);
  return showOrder(state, after);
}

const organizationSchema = z.strictObject({
  plan: z.enum(PLANS).optional(),
  subscription: z.enum(SUBSCRIPTIONS).optional(),
});
const branchSchema = z.strictObject({
  organization: fields.organization,
  closed: fields.flag.optional(),
  /** Zone code of the new primary connection; null or `none` ends the primary connection. */
  primary: z.string().max(100).nullable().optional(),
  /** Takes the coordinates from the main address, or gives them back. */
  located: fields.flag.optional(),
});
const webhookSchema = z.strictObject({
  organization: fields.organization,
  mode: fields.mode,
  url: z.string().max(2_000),
  secret: z.string().max(1_000),
  scheme: z.string().max(4_000).optional(),
  name: z.string().max(100).optional(),
});

const keySchema = z.strictObject({ organization: fields.organization, mode: fields.mode });
const MINUTES_PER_DAY = 1_440;
const minute = z.number().int().min(0).max(MINUTES_PER_DAY);
const zoneSchema = z.strictObject({
  shifts: z.array(z.strictObject({ fromMinute: minute, untilMinute: minute })).max(100),
});

/** API keys and the shifts of zones. */
function makeAccessControls({ state }: ControlDeps): readonly Control[] {
  return [
    control(["post", "/keys", "Makes an API key"], keySchema, async ({ organization, mode }) => {
      state.directory.getOrganization(organization);
      const apiKey = `dos_${mode}_${randomBytes(12).toString("hex")}`;
      const made = { apiKey, organizationId: organization, livemode: mode === "live" };
      await applyChange(state, ({ keys }) => ({ keys: [...keys, made] }));
      return { apiKey };
    }),
    control(
      ["post", "/keys/:key/revoke", "Revokes an API key"],
      fields.none,
      async (_given, { key = "" }) => {
        if (!state.directory.findCaller(key)) throw refused(404, "not_found", "There is no such key.");
        await applyChange(state, ({ keys }) => ({ keys: keys.filter(({ apiKey }) => apiKey !== key) }));
        return { revoked: true };
      },
    ),
    control(
      ["post", "/zones/:zone", "Sets the shifts of a zone, as minutes of the local day"],
      zoneSchema,
      async ({ shifts }, { zone: code = "" }) => {
        assertZone(state, code);
        await applyChange(state, ({ zones }) => ({
          zones: zones.map((each) => (each.code === code ? { ...each, shifts } : each)),
        }));
        return state.directory.zoneByCode(code);
      },
    ),
  ];
}

/** Makes the controls of what the provider's dashboard sets: plans, subscriptions, branches and webhook endpoints. */
function makeDashboardControls({ state }: ControlDeps): readonly Control[] {
  return [
    control(
      ["post", "/organizations/:organization", "Plan and subscription"],
      organizationSchema,
      async ({ plan, subscription }, { organization = "" }) => {
        state.directory.getOrganization(organization);
        await applyChange(state, ({ organizations }) => ({
          organizations: organizations.map((each) =>
            each.organizationId === organization
              ? { ...each, plan: plan ?? each.plan, subscription: subscription ?? each.subscription }
              : each,
          ),
        }));
        return state.directory.getOrganization(organization);
      },
    ),
    control(
      ["post", "/branches/:branch", "Closes, locates or connects a branch (id or reference)"],
      branchSchema,
      async (change, { branch: name = "" }) => {
        const branch = state.directory.findBranch(change.organization, name);
        if (!branch) throw refused(404, "branch_not_found", "There is no such branch.");
        const { branchId } = branch;
        if (typeof change.primary === "string" && change.primary !== "none")
          assertZone(state, change.primary);
        await applyChange(state, ({ branches }) => ({
          branches: branches.map((each) => (each.branchId === branchId ? changeBranch(each, change) : each)),
        }));
        return state.directory.branchById(branchId);
      },
    ),
    control(
      ["post", "/webhooks", 'Adds or replaces an endpoint: {"mode":"live","url":…,"secret":…}'],
      webhookSchema,
      async ({ organization, ...request }) => {
        const endpoint = await setWebhook(state, { organizationId: organization, ...request });
        return { endpointId: endpoint.endpointId, url: endpoint.url };
      },
    ),
  ];
}

/** Applies a change, so that the next request and the next event see it. */
async function applyChange(
  state: SandboxState,
  change: (content: DirectoryContent) => Partial<DirectoryContent>,
): Promise<void> {
  await state.write((connection) => state.directory.change(connection, change));
  state.wake();
}

function assertZone({ directory }: SandboxState, code: string): void {
  if (!directory.zones().some((zone) => zone.code === code))
    throw refused(404, "zone_not_found", "There is no such zone.");
}

function changeBranch(
  branch: Branch,
  { closed = branch.closed, located, primary }: z.infer<typeof branchSchema>,
): Branch {
  const found = geocode(branch.address);
  const given = found.valid ? found.coordinates : null;
  const coordinates = located === undefined ? branch.coordinates : located ? given : null;
  const changed = { ...branch, closed, coordinates };
  if (primary === undefined) return changed;
  // No other becomes primary (spec, "Branch object").
  if (primary === null || primary === "none")
    return { ...changed, connections: branch.connections.filter((each) => !each.isPrimary) };
  const isKnown = branch.connections.some(({ zoneCode }) => zoneCode === primary);
  const all = isKnown ? branch.connections : [...branch.connections, { zoneCode: primary }];
  return {
    ...changed,
    connections: all.map(({ zoneCode }) => ({ zoneCode, isPrimary: zoneCode === primary })),
  };
}
