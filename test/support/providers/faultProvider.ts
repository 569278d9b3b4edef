import { parseInstant } from "../../../src/domain/order/instant.ts";
import { type Sandbox, type SandboxOptions } from "../../../src/sandbox/startSandbox.ts";
import { startFaultProxy, through, type FaultProxy } from "../faults/faultProxy.ts";
import { makeTestSandbox, readLiveOrders, type TestSandbox } from "./testSandbox.ts";
import { WEBHOOK_SECRET } from "../signing/signing.ts";

/** The provider, on a database server without faults, behind a proxy that can fail. */
export interface FaultProvider extends Pick<TestSandbox, "steer"> {
  readonly sandbox: Sandbox;
  readonly line: FaultProxy;
  /** Variables that point the program at it, and make it poll as often as allowed. */
  readonly env: Record<string, string>;
  /** From now on, events of live orders go directly to this address, not through a proxy. */
  sendEventsTo(url: string): Promise<void>;
  /** All live orders as they are now, by reference. */
  readonly readTruth: () => Promise<Map<string, Record<string, unknown>>>;
  /** Their updatedAt. */
  readonly readVersions: () => Promise<Map<string, bigint>>;
  /** How many requests were answered with this status so far. */
  countAnswers(status: number): Promise<number>;
  close(): Promise<void>;
}

/** Rate limits are on, as at the provider; the fleet is at rest unless requested. */
export async function startFaultProvider(options: Partial<SandboxOptions> = {}): Promise<FaultProvider> {
  const { sandbox, steer, close } = await makeTestSandbox({ rateLimits: true, ...options });
  const line = await startFaultProxy(sandbox.port);
  const readTruth = () => readLiveOrders(steer);

  return {
    sandbox,
    line,
    steer,
    env: {
      DELIVERY_BASE_URL: through(sandbox.url, line),
      POLL_INTERVAL_SECONDS: "1",
      POLL_MARGIN_SECONDS: "6",
      BACKFILL_SINCE: "PT30M",
    },
    async sendEventsTo(url) {
      const endpoint = { organization: "sandbox", mode: "live", url, secret: WEBHOOK_SECRET };
      await steer("POST", "/webhooks", endpoint);
    },
    readTruth,
    async readVersions() {
      const truth = await readTruth();
      return new Map([...truth].map(([key, order]) => [key, parseInstant(String(order["updatedAt"]))]));
    },
    async countAnswers(status) {
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
