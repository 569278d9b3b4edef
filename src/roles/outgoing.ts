import { makeOutgoingLane } from "../outgoing/outgoingLane.ts";
import type { OutgoingLane } from "../outgoing/outgoingLane.ts";
import { makeSend } from "../outgoing/outgoingSend.ts";
import { makeStandardSigner } from "../signature/sign.ts";
import type { OutgoingWebhook } from "../runtime/config/outgoingFile.ts";
import { openPool } from "./role.ts";
import type { RoleDeps } from "./role.ts";

/** Statements are short, and no connection is held while an endpoint answers. */
const OUTGOING_POOL = { purpose: "outgoing", max: 3, statementTimeoutMs: 20_000 };

/** Starts a lane for each configured endpoint. */
export function startOutgoing(deps: RoleDeps): void {
  const { config, clock, logger, shutdown } = deps;
  const pool = openPool(deps, OUTGOING_POOL);
  const known = new Set(config.sources.map(({ sourceId }) => sourceId));
  const open = (webhook: OutgoingWebhook): OutgoingLane => {
    const { endpointId, url, secrets, allowPrivate, sourceIds, types, statuses } = webhook;
    const send = makeSend({ url, sign: makeStandardSigner(secrets), clock, allowPrivate });
    const subscriptions = sourceIds
      .filter((sourceId) => known.has(sourceId))
      .map((sourceId) => ({ endpointId, sourceId, types, statuses }));
    const endpoint = { ...webhook, send };
    return makeOutgoingLane({ pool, endpoint, subscriptions, clock, logger, random: Math.random });
  };
  const lanes = config.outgoingWebhooks.map(open);
  shutdown.onShutdown("outgoing webhooks", async () => {
    await Promise.all(lanes.map((lane) => lane.close()));
  });
  for (const lane of lanes) lane.start();
}
