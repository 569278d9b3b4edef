import { parseInstant } from "../../../src/domain/order/instant.ts";
import { type SandboxOptions } from "../../../src/sandbox/startSandbox.ts";
import { startFaultProxy, through } from "../faults/faultProxy.ts";
import { makeTestSandbox, readLiveOrders } from "./testSandbox.ts";
import { WEBHOOK_SECRET } from "../signing/signing.ts";

export type FaultProvider = Awaited<ReturnType<typeof startFaultProvider>>;

/**
 * The provider, on a database server without faults, behind a proxy that can fail. Rate limits are on, as at the
 * provider; the fleet is at rest unless requested.
 */
export async function startFaultProvider(options: Partial<SandboxOptions> = {}) {
  const { sandbox, steer, close } = await makeTestSandbox({ rateLimits: true, ...options });
  const line = await startFaultProxy(sandbox.port);
  const readTruth = () => readLiveOrders(steer);

  return {
    sandbox,
    line,
    steer,
    /** Variables that point the program at it, and make it poll as often as allowed. */
    env: {
      DELIVERY_BASE_URL: through(sandbox.url, line),
      POLL_INTERVAL_SECONDS: "1",
      POLL_MARGIN_SECONDS: "6",
      BACKFILL_SINCE: "PT30M",
    },
    /** From now on, events of live orders go directly to this address, not through a proxy. */
    async sendEventsTo(url: string) {
      const endpoint = { organization: "sandbox", mode: "live", url, secret: WEBHOOK_SECRET };
      await steer("POST", "/webhooks", endpoint);
    },
    /** All live orders as they are now, by reference. */
    readTruth,
    /** Their updatedAt. */
    async readVersions() {
      const truth = await readTruth();
      return new Map([...truth].map(([key, order]) => [key, parseInstant(String(order["updatedAt"]))]));
    },
    /** How many requests were answered with this status so far. */
    async countAnswers(status: number) {
      const { requests: counts } = (await steer("GET", "/state")) as { requests: Record<string, number> };
      return Object.entries(counts)
        .filter(([answer]) => answer.endsWith(` ${status}`))
        .reduce((sum, [, count]) => sum + count, 0);
    },
    async close() {
      await line.close();
      await close();
    },
  };
}
