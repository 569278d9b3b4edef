import { makeOutgoingLane } from "../outgoing/outgoingLane.ts";
import { recordListed } from "../outgoing/outgoingPlan.sql.ts";
import { makeSend } from "../outgoing/outgoingSend.ts";
import { makeStandardSigner } from "../signature/sign.ts";
import type { OutgoingWebhook } from "../runtime/config/outgoingFile.ts";
import { openPool } from "./role.ts";
import type { RoleDeps } from "./role.ts";
import { keepRunning } from "./start/reloadableConfig.ts";
import type { Reloaded } from "./start/reloadableConfig.ts";

/** Statements are short, and no connection is held while an endpoint answers. */
const OUTGOING_POOL = { purpose: "outgoing", max: 3, statementTimeoutMs: 20_000 };

/** Runs a lane for each configured endpoint. */
export async function startOutgoing(deps: RoleDeps): Promise<void> {
  const { config, clock, logger, shutdown } = deps;
  const pool = openPool(deps, OUTGOING_POOL);
  const lanes = keepRunning((webhook: OutgoingWebhook) => {
    const { endpointId, url, secrets, allowPrivate, sourceIds, types, statuses } = webhook;
    const send = makeSend({ url, sign: makeStandardSigner(secrets), clock, allowPrivate });
    const subscriptions = sourceIds.map((sourceId) => ({ endpointId, sourceId, types, statuses }));
    const endpoint = { ...webhook, send };
    const lane = makeOutgoingLane({ pool, endpoint, subscriptions, clock, logger, random: Math.random });
    lane.start();
    return lane;
  });

  async function use({ outgoingWebhooks }: Pick<Reloaded, "outgoingWebhooks">): Promise<void> {
    await recordListed(pool, outgoingWebhooks);
    await lanes.use(outgoingWebhooks);
  }

  await use(config);
  deps.reloadable.follow(use);
  shutdown.onShutdown("outgoing webhooks", lanes.close);
}
