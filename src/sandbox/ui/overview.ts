import { formatInstant } from "../../domain/order/instant.ts";
import type { ControlDeps } from "../control/control.ts";
import { readFigures } from "../control/control.sql.ts";
import { readEndpoints } from "../events/event.sql.ts";
import { NO_FAULTS } from "../control/faults.ts";
import type { Faults } from "../control/faults.ts";

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
    faults: listFaultsOn(faults.current()),
    organizations: directory.organizations().map((organization) => ({
      ...organization,
      ...figures.find((each) => each.organizationId === organization.organizationId),
      branches: directory.branchesOf(organization.organizationId),
    })),
    zones: directory.zones(),
    webhooks: endpoints.map(({ endpointId, organizationId, livemode, url, scheme }) => ({
      endpointId,
      organizationId,
      mode: livemode ? "live" : "test",
      url,
      scheme,
    })),
    requests: journal.counts(),
  };
}

/** The faults that differ from their default. */
function listFaultsOn(faults: Faults): Partial<Faults> {
  const names = Object.keys(NO_FAULTS) as (keyof Faults)[];
  return Object.fromEntries(
    names.filter((name) => faults[name] !== NO_FAULTS[name]).map((name) => [name, faults[name]]),
  );
}
