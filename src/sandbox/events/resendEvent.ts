import { readEventOwner } from "../control/control.sql.ts";
import type { Connection } from "../world/database.ts";
import { insertDeliveries, readEndpoints } from "./event.sql.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import { refused } from "../api/errors.ts";

/**
 * Sends an event again, unchanged, to each endpoint of its mode, even one that was lost or refused before. Returns the
 * number of endpoints. Throws feature_not_available if the plan no longer has webhooks.
 */
export async function resendEvent(
  state: SandboxState,
  connection: Connection,
  eventId: string,
): Promise<number> {
  const owner = await readEventOwner(connection, eventId);
  if (!owner) throw refused(404, "event_not_found", "There is no such event.");
  if (state.directory.findOrganization(owner.organizationId)?.plan !== "advanced") {
    throw refused(403, "feature_not_available", "The plan has no webhooks.");
  }
  const receivers = (await readEndpoints(connection)).filter(
    (endpoint) => endpoint.organizationId === owner.organizationId && endpoint.livemode === owner.livemode,
  );
  const dueAt = state.clock.now();
  await insertDeliveries(
    connection,
    receivers.map(({ endpointId }) => ({ eventId, endpointId, reason: "resend", corrupt: false, dueAt })),
  );
  return receivers.length;
}
