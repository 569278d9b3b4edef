import { z } from "zod";
import { deleteEndpoint } from "../events/events.sql.ts";
import { setWebhook } from "../events/events.ts";
import { PLANS, SUBSCRIPTIONS } from "../world/directory.ts";
import type { Branch, DirectoryContent } from "../world/directory.ts";
import { geocode } from "../world/places.ts";
import { refused } from "../world/state.ts";
import type { SandboxState } from "../world/state.ts";
import { readContent, saveContent } from "../world/world.sql.ts";
import { control, fields } from "./control.ts";
import type { Control, ControlDeps } from "./control.ts";

const organizationSchema = z.strictObject({
  plan: z.enum(PLANS).optional(),
  subscription: z.enum(SUBSCRIPTIONS).optional(),
});
const branchSchema = z.strictObject({
  organization: fields.organization,
  closed: fields.flag.optional(),
  /** Zone code of the new primary connection; null or `none` ends the primary connection. */
  primary: z.string().max(100).nullable().optional(),
  /** Whether the main address has coordinates. */
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

/** What the provider's dashboard sets: plans, subscriptions, branches and webhook endpoints. */
export function makeDashboardControls({ state }: ControlDeps): readonly Control[] {
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
        const changed = changeBranch(state, branch, change);
        await applyChange(state, ({ branches }) => ({
          branches: branches.map((each) => (each.branchId === branch.branchId ? changed : each)),
        }));
        return changed;
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
    control(
      ["delete", "/webhooks/:endpoint", "Removes an endpoint"],
      fields.none,
      async (_given, { endpoint = "" }) => {
        const existed = await state.write((connection) => deleteEndpoint(connection, endpoint));
        if (!existed) throw refused(404, "not_found", "There is no such endpoint.");
        return { deleted: endpoint };
      },
    ),
  ];
}

/** Applies a change, so that the next request and the next event see it. */
async function applyChange(
  state: SandboxState,
  change: (content: DirectoryContent) => Partial<DirectoryContent>,
): Promise<void> {
  await state.write(async (connection) => {
    const content = await readContent(connection);
    await saveContent(connection, { ...content, ...change(content) });
  });
  await state.directory.reload(state.pool);
  state.wake();
}

function changeBranch(
  { directory }: SandboxState,
  branch: Branch,
  { closed = branch.closed, located, primary }: z.infer<typeof branchSchema>,
): Branch {
  const found = located === true ? geocode(branch.address) : undefined;
  const coordinates = found?.valid === true ? found.coordinates : null;
  const changed = {
    ...branch,
    closed,
    coordinates: located === undefined ? branch.coordinates : coordinates,
  };
  if (primary === undefined) return changed;
  // No other becomes primary (spec, "Branch object").
  if (primary === null || primary === "none")
    return { ...changed, connections: branch.connections.filter((each) => !each.isPrimary) };
  if (!directory.zones().some((zone) => zone.code === primary))
    throw refused(404, "zone_not_found", "There is no such zone.");
  const isKnown = branch.connections.some(({ zoneCode }) => zoneCode === primary);
  const all = isKnown ? branch.connections : [...branch.connections, { zoneCode: primary }];
  return {
    ...changed,
    connections: all.map(({ zoneCode }) => ({ zoneCode, isPrimary: zoneCode === primary })),
  };
}
