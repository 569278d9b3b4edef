import { formatInstant } from "../../domain/order/instant.ts";
import type { ControlDeps } from "../control/control.ts";
import { readFigures } from "../control/control.sql.ts";
import { readEndpoints } from "../events/event.sql.ts";
import { modeOf } from "../world/directory.ts";
import { listChanged } from "../control/faults.ts";

/** The content of the control page and of GET /_sandbox/state. */
export async function readOverview({ state, journal }: ControlDeps) {
  const { pool, clock, dials, directory, faults } = state;
  const organizationIds = directory.organizations().map(({ organizationId }) => organizationId);
  const figures = await readFigures(pool, organizationIds);
  const endpoints = await readEndpoints(pool);
  return {
    seed: dials.seed,
    clock: { kind: clock.kind, now: formatInstant(clock.now()) },
    speed: dials.fleetSpeed,
    ordersPerMinute: dials.ordersPerMinute,
    retryBaseMs: dials.retryBaseMs,
    faults: Object.fromEntries(listChanged(faults.current()).map((name) => [name, faults.current()[name]])),
    organizations: directory.organizations().map((organization) => ({
      ...organization,
      ...figures.find((each) => each.organizationId === organization.organizationId),
      branches: directory.branchesOf(organization.organizationId),
    })),
    zones: directory.zones(),
    webhooks: endpoints.map(({ endpointId, organizationId, livemode, url, scheme }) => ({
      endpointId,
      organizationId,
      mode: modeOf(livemode),
      url,
      scheme,
    })),
    requests: journal.counts(),
  };
}
