import { randomUUID } from "node:crypto";
import { z } from "zod";
import { applyChange, control, fields } from "./control.ts";
import type { Control, ControlDeps } from "./control.ts";
import { isUuid, PLANS, SUBSCRIPTIONS } from "../world/directory.ts";
import type { Branch } from "../world/directory.ts";
import { ALL_DAY } from "../seed/seedWorld.ts";
import { geocode } from "../places/geocode.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import { refused } from "../api/errors.ts";

const organizationSchema = z.strictObject({
  plan: z.enum(PLANS).optional(),
  subscription: z.enum(SUBSCRIPTIONS).optional(),
});
const name = z.string().min(1).max(100);
const branchSchema = z.strictObject({
  organization: fields.organization,
  closed: fields.flag.optional(),
  /** Zone code of the new primary connection; null or `none` ends the primary connection. */
  primary: z.string().max(100).nullable().optional(),
  /** Zone code of an additional connection. */
  connect: z.string().max(100).optional(),
  reference: z.string().min(1).max(100).nullable().optional(),
  /** Whether the main address has coordinates. */
  located: fields.flag.optional(),
});
const MINUTE = /^([01]\d|2[0-4]):([0-5]\d)$/;
const minute = z
  .string()
  .regex(MINUTE)
  .transform((text) => Number(text.slice(0, 2)) * 60 + Number(text.slice(3)));
const shiftsSchema = z.strictObject({
  shifts: z.array(z.strictObject({ from: minute, until: minute })).max(20),
});
const newOrganizationSchema = z.strictObject({
  organization: name,
  name: name.optional(),
  plan: z.enum(["standard", "advanced"]).default("advanced"),
});
const newZoneSchema = z.strictObject({
  zone: name,
  name: name.optional(),
  /** Its id; a new one is created. */
  fleet: name,
  /** The organization that delivers its own orders; only for a new fleet. */
  owner: name.optional(),
});
const newBranchSchema = z.strictObject({
  organization: fields.organization,
  name,
  reference: name.optional(),
  street: name,
  city: name,
  postcode: name,
  /** Zone codes; the first is the primary connection. */
  zones: z.union([z.array(name), name.transform((text) => text.split(/ *, */))]).default([]),
});

/** Everything that the provider's dashboard sets: plans, subscriptions, branches, zones. */
export function makeDashboardControls({ state }: ControlDeps): readonly Control[] {
  return [
    control(
      ["POST", "/organizations/:organization", "Plan and subscription"],
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
      ["POST", "/branches/:branch", "Closes, connects or renames a branch (id or reference)"],
      branchSchema,
      async (change, { branch: name = "" }) => {
        const { branchId } = findBranch(state, change.organization, name);
        await applyChange(state, ({ branches }) => ({
          branches: branches.map((each) =>
            each.branchId === branchId ? changeBranch(state, each, change) : each,
          ),
        }));
        return state.directory.branchById(branchId);
      },
    ),
    control(
      ["POST", "/zones/:zone", 'Shifts of a zone, local time: {"shifts":[{"from":"08:00","until":"22:00"}]}'],
      shiftsSchema,
      async ({ shifts }, { zone = "" }) => {
        assertZone(state, zone);
        const minutes = shifts.map(({ from, until }) => ({ fromMinute: from, untilMinute: until }));
        await applyChange(state, ({ zones }) => ({
          zones: zones.map((each) => (each.code === zone ? { ...each, shifts: minutes } : each)),
        }));
        return state.directory.zoneByCode(zone);
      },
    ),
    ...makeAdditions(state),
  ];
}

function makeAdditions(state: SandboxState): readonly Control[] {
  const { directory } = state;
  return [
    control(
      ["POST", "/organizations", "Adds an organization; its keys are added with POST /_sandbox/keys"],
      newOrganizationSchema,
      async ({ organization: organizationId, name: shown = organizationId, plan }) => {
        await applyChange(state, ({ organizations }) => {
          assertFree(organizations.some((each) => each.organizationId === organizationId));
          const added = { organizationId, name: shown, plan, subscription: "active" } as const;
          const sorted = [...organizations, added].toSorted(byText((each) => each.organizationId));
          return { organizations: sorted };
        });
        return directory.findOrganization(organizationId);
      },
    ),
    control(
      ["POST", "/zones", "Adds a zone, in which couriers of a fleet work all day"],
      newZoneSchema,
      async ({ zone: code, name: shown = code, fleet: fleetId, owner = null }) => {
        if (owner !== null) directory.getOrganization(owner);
        await applyChange(state, ({ fleets, zones }) => {
          assertFree(zones.some((each) => each.code === code));
          const known = fleets.find((each) => each.fleetId === fleetId);
          const fleet = known ?? { fleetId, name: fleetId, owner };
          const names = { fleetName: fleet.name, fleetOwnerId: fleet.owner };
          const added = { code, name: shown, shifts: ALL_DAY, ...names };
          return {
            fleets: known === undefined ? [...fleets, fleet] : fleets,
            zones: [...zones, added].toSorted(byText((each) => each.code)),
          };
        });
        return directory.zoneByCode(code);
      },
    ),
    control(["POST", "/branches", "Adds a branch"], newBranchSchema, async (given) => {
      const { organization: organizationId, name: shown, reference = null, zones, ...address } = given;
      directory.getOrganization(organizationId);
      for (const zone of zones) assertZone(state, zone);
      assertFreeReference(state, { organizationId, branchId: null, reference });
      const found = geocode(address);
      const branch = {
        branchId: randomUUID(),
        organizationId,
        reference,
        name: shown,
        address,
        coordinates: found.valid ? found.coordinates : null,
        closed: false,
        connections: [...new Set(zones)].map((zoneCode, place) => ({ zoneCode, isPrimary: place === 0 })),
      };
      await applyChange(state, ({ branches }) => ({ branches: [...branches, branch] }));
      return directory.branchById(branch.branchId);
    }),
  ];
}

/** Compares by a text, as a database without a locale sorts. */
const byText =
  <Item>(textOf: (item: Item) => string) =>
  (a: Item, b: Item) =>
    textOf(a) < textOf(b) ? -1 : 1;

function assertFree(isTaken: boolean): void {
  if (isTaken) throw refused(409, "name_taken", "There is one of that name already.");
}

function changeBranch(state: SandboxState, branch: Branch, change: z.infer<typeof branchSchema>): Branch {
  const { organizationId, branchId } = branch;
  const { closed = branch.closed, located, primary, connect, reference = branch.reference } = change;
  assertFreeReference(state, { organizationId, branchId, reference });
  const found = located === true ? geocode(branch.address) : undefined;
  const coordinates = found?.valid === true ? found.coordinates : null;
  let { connections } = branch;
  if (primary === null || primary === "none") {
    // No other becomes primary (spec, "Branch object").
    connections = connections.filter((each) => !each.isPrimary);
  } else if (primary !== undefined) {
    assertZone(state, primary);
    const others = connections.map((each) => ({ ...each, isPrimary: false }));
    connections = connectZone(others, { zoneCode: primary, isPrimary: true });
  }
  if (connect !== undefined) {
    assertZone(state, connect);
    connections = connectZone(connections, { zoneCode: connect, isPrimary: false });
  }
  return {
    ...branch,
    closed,
    reference,
    coordinates: located === undefined ? branch.coordinates : coordinates,
    connections,
  };
}

/** Connects a zone; one that is connected keeps its place. */
function connectZone(
  connections: Branch["connections"],
  zone: Branch["connections"][number],
): Branch["connections"] {
  return connections.some(({ zoneCode }) => zoneCode === zone.zoneCode)
    ? connections.map((each) => (each.zoneCode === zone.zoneCode ? zone : each))
    : [...connections, zone];
}

function assertFreeReference(
  state: SandboxState,
  wanted: { organizationId: string; branchId: string | null; reference: string | null },
): void {
  const { organizationId, branchId, reference } = wanted;
  if (reference === null) return;
  // A UUID-shaped value is read as an id, so a reference must not look like one (spec, "Branch object").
  if (isUuid(reference)) {
    throw refused(422, "invalid_request", "A branch reference cannot be a UUID.");
  }
  const owner = state.directory.findBranch(organizationId, reference);
  if (owner && owner.branchId !== branchId) {
    throw refused(409, "reference_taken", "Another branch has this reference.");
  }
}

function findBranch(state: SandboxState, organization: string, name: string): Branch {
  const branch = state.directory.findBranch(organization, name);
  if (!branch) throw refused(404, "branch_not_found", "There is no such branch.");
  return branch;
}

function assertZone(state: SandboxState, code: string): void {
  if (state.directory.zones().some((zone) => zone.code === code)) return;
  throw refused(404, "zone_not_found", "There is no such zone.");
}
