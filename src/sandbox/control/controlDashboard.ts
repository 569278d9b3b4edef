import { randomUUID } from "node:crypto";
import { z } from "zod";
import { applyChange, control, fields } from "./control.ts";
import type { Control, ControlDeps } from "./control.ts";
import {
  connectZone,
  deactivatePrimary,
  updateBranch,
  updateBranchCoordinates,
  updateBranchReference,
  updateOrganization,
  updateShifts,
} from "./control.sql.ts";
import type { Connection } from "../world/database.ts";
import { isUuid } from "../world/directory.ts";
import { PLANS, SUBSCRIPTIONS } from "../world/directory.sql.ts";
import type { Branch } from "../world/directory.sql.ts";
import { ALL_DAY } from "../seed/seedWorld.ts";
import { insertBranches, insertOrganizations, insertZones } from "../world/world.sql.ts";
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
  const apply = (work: (connection: Connection) => Promise<unknown>) => applyChange(state, work);
  return [
    control(
      ["POST", "/organizations/:organization", "Plan and subscription"],
      organizationSchema,
      async ({ plan = null, subscription = null }, { organization = "" }) => {
        await apply(async (connection) => {
          const exists = await updateOrganization(connection, organization, { plan, subscription });
          if (!exists) throw refused(404, "not_found", "There is no such organization.");
        });
        return state.directory.findOrganization(organization);
      },
    ),
    control(
      ["POST", "/branches/:branch", "Closes, connects or renames a branch (id or reference)"],
      branchSchema,
      async (change, { branch: name = "" }) => {
        const { branchId } = findBranch(state, change.organization, name);
        await apply((connection) => changeBranch(state, connection, branchId, change));
        return state.directory.branchById(branchId);
      },
    ),
    control(
      ["POST", "/zones/:zone", 'Shifts of a zone, local time: {"shifts":[{"from":"08:00","until":"22:00"}]}'],
      shiftsSchema,
      async ({ shifts }, { zone = "" }) => {
        assertZone(state, zone);
        const minutes = shifts.map(({ from, until }) => ({ fromMinute: from, untilMinute: until }));
        await apply((connection) => updateShifts(connection, zone, minutes));
        return state.directory.zoneByCode(zone);
      },
    ),
    ...makeAdditions(state),
  ];
}

/** New organizations, zones and branches. */
function makeAdditions(state: SandboxState): readonly Control[] {
  const { directory } = state;
  const apply = (work: (connection: Connection) => Promise<unknown>) => applyChange(state, work);
  return [
    control(
      ["POST", "/organizations", "Adds an organization; its keys are added with POST /_sandbox/keys"],
      newOrganizationSchema,
      async ({ organization: organizationId, name: shown = organizationId, plan }) => {
        assertFree(directory.findOrganization(organizationId));
        await apply((connection) =>
          insertOrganizations(connection, [{ organizationId, name: shown, plan, keys: [] }]),
        );
        return directory.findOrganization(organizationId);
      },
    ),
    control(
      ["POST", "/zones", "Adds a zone, in which couriers of a fleet work all day"],
      newZoneSchema,
      async ({ zone: code, name: shown = code, fleet: fleetId, owner = null }) => {
        assertFree(directory.zones().find((each) => each.code === code));
        if (owner !== null) assertOrganization(state, owner);
        const fleets = [{ fleetId, name: fleetId, owner }];
        const zones = [{ code, name: shown, fleetId, shifts: ALL_DAY }];
        await apply((connection) => insertZones(connection, { fleets, zones }));
        return directory.zoneByCode(code);
      },
    ),
    control(["POST", "/branches", "Adds a branch"], newBranchSchema, async (given) => {
      const { organization: organizationId, name: shown, reference = null, zones, ...address } = given;
      assertOrganization(state, organizationId);
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
        primary: zones[0] ?? null,
        zones,
      };
      await apply((connection) => insertBranches(connection, [branch]));
      return directory.branchById(branch.branchId);
    }),
  ];
}

function assertFree(known: unknown): void {
  if (known !== undefined) throw refused(409, "name_taken", "There is one of that name already.");
}

function assertOrganization(state: SandboxState, organizationId: string): void {
  if (!state.directory.findOrganization(organizationId))
    throw refused(404, "not_found", "There is no such organization.");
}

async function changeBranch(
  state: SandboxState,
  connection: Connection,
  branchId: string,
  change: z.infer<typeof branchSchema>,
): Promise<void> {
  const { closed = null, located, primary, connect, reference } = change;
  await updateBranch(connection, branchId, closed);
  if (located !== undefined) {
    const found = geocode(state.directory.branchById(branchId).address);
    const coordinates = located && found.valid ? found.coordinates : null;
    await updateBranchCoordinates(connection, branchId, coordinates);
  }
  if (reference !== undefined) {
    const { organizationId } = state.directory.branchById(branchId);
    assertFreeReference(state, { organizationId, branchId, reference });
    await updateBranchReference(connection, branchId, reference);
  }
  if (primary === null || primary === "none") await deactivatePrimary(connection, branchId);
  else if (primary !== undefined) {
    assertZone(state, primary);
    await connectZone(connection, branchId, { zoneCode: primary, isPrimary: true });
  }
  if (connect !== undefined) {
    assertZone(state, connect);
    await connectZone(connection, branchId, { zoneCode: connect, isPrimary: false });
  }
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
