import { makeTestSandbox } from "../providers/testSandbox.ts";
import { addSeconds, type Instant } from "../../../src/domain/order/instant.ts";
import { UNLIMITED } from "../../../src/provider/budget.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { type SandboxOptions } from "../../../src/sandbox/startSandbox.ts";
import {
  makeContractClient,
  type ContractClient,
  type CreateOrderRequest,
  type WireAddress,
} from "./contractClient.ts";
import { openContractMirror } from "./contractMirror.ts";
import { makeSandboxControl } from "../providers/sandboxControl.ts";

/** One key: the typed client, and plain HTTP for what the types do not allow. */
export interface Caller {
  readonly apiKey: string;
  readonly client: ContractClient;
  /** `path` with query; `body` as JSON. */
  ask(method: string, path: string, body?: unknown): Promise<RawAnswer>;
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Record<string, unknown>;
  /** The refusal's code, wherever the body has it; undefined for a success. */
  readonly code: string | undefined;
}

const KEYS = {
  live: "dos_live_sandbox",
  test: "dos_test_sandbox",
  testSecond: "dos_test_sandbox_second",
  otherTest: "dos_test_other",
  standardTest: "dos_test_standard",
};
export type Keys = typeof KEYS;

/** What the suite needs to know of the provider to send useful requests. Branches by reference. */
const WORLD = {
  branch: "centrum",
  /** The same, with another fleet. */
  secondBranch: "utrecht",
  /** Of the organization on the Standard plan. */
  standardBranch: "winkel",
  unconnectedBranch: "den-haag",
  closedBranch: "leiden",
  /** The organization is its own fleet there. */
  ownFleetBranch: "eigen-bezorging",
  /** A branch with two zones, and the one that is not primary. */
  secondZone: { branch: "centrum", zoneCode: "AMS-W" },
  /** A zone in which no courier works. */
  uncoveredZone: { branch: "rotterdam", zoneCode: "RTM-OFF" },
  addresses: {
    valid: { street: "Overtoom 100", city: "Amsterdam", postcode: "1054 HN" },
    /** Found, although its form needs correction. */
    untidy: { street: "overtoom  100", city: "AMSTERDAM", postcode: "1054hn" },
    notFound: { street: "Nergensweg 1", city: "Amsterdam", postcode: "9999 ZZ" },
    ambiguous: { street: "Kerkstraat 5", city: "Amsterdam", postcode: "9999 ZZ" },
    lowConfidence: { street: "Overtoom 99999", city: "Amsterdam", postcode: "1054 HN" },
  },
};
export type World = typeof WORLD;

/**
 * The provider that the contract suite tests: a sandbox of each file's own or, with CONTRACT_TARGET=mirror, the mirror in
 * front of one. The mirror must answer as the provider does, except for what mirrorExceptions.ts lists.
 */
export async function openTarget(options: Partial<SandboxOptions> = {}) {
  const sandbox = await makeTestSandbox(options);
  const mirror =
    process.env["CONTRACT_TARGET"] === "mirror"
      ? await openContractMirror(sandbox.database, sandbox.url)
      : undefined;
  const { url: baseUrl, keys } = mirror ?? { url: sandbox.url, keys: KEYS };
  const as = (apiKey: string | null) => makeCaller(baseUrl, apiKey);
  return {
    baseUrl,
    world: WORLD,
    live: as(keys.live),
    test: as(keys.test),
    /** The same organization and mode. */
    testSecond: as(keys.testSecond),
    /** Test mode, of another organization. */
    other: as(keys.otherTest),
    /** Test mode, of an organization on the Standard plan. */
    standard: as(keys.standardTest),
    /** Any key, also a wrong one; null sends none. */
    as,
    /** What the dashboard and the fleet would do. */
    control: mirror?.control ?? makeSandboxControl(sandbox.url),
    async close() {
      await mirror?.close();
      await sandbox.close();
    },
  };
}
export type ContractTarget = Awaited<ReturnType<typeof openTarget>>;

export function makeCaller(baseUrl: string, apiKey: string | null): Caller {
  return {
    apiKey: apiKey ?? "",
    client: makeContractClient({
      baseUrl,
      apiKey: apiKey === null || apiKey === "" ? "none" : apiKey,
      // The sandbox of most files does not count, although its headers name the limits.
      budget: UNLIMITED,
      clock: systemClock,
      logger: silentLogger,
    }),
    async ask(method, path, body) {
      const response = await fetch(baseUrl + path, {
        method,
        headers: {
          ...(apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        redirect: "manual",
      });
      const answer = (await response.json()) as Record<string, unknown>;
      return { status: response.status, headers: response.headers, body: answer, code: readCode(answer) };
    },
  };
}

/** Assumed: the code is in `error.code`; the spec does not show the body. */
function readCode(body: Record<string, unknown>): string | undefined {
  const { error } = body;
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

let madeIds = 0;

/** An externalOrderId that no earlier run has used. */
export function freshId(): string {
  madeIds += 1;
  return `contract-${Date.now().toString(36)}-${madeIds}`;
}

/** A body for POST /v1/orders that is accepted unchanged. */
export function orderFor(world: World, fields: Partial<CreateOrderRequest> = {}): CreateOrderRequest {
  return {
    externalOrderId: freshId(),
    branch: world.branch,
    customer: { firstName: "Ada", phone: "+31 6 1234 5678", address: world.addresses.valid },
    schedule: { mode: "asap" },
    ...fields,
  };
}

/** The same with another delivery address. */
export function orderTo(world: World, address: WireAddress, fields: Partial<CreateOrderRequest> = {}) {
  return orderFor(world, { ...fields, customer: { firstName: "Ada", phone: "+31 6 1234 5678", address } });
}

/** The number of orders that changed since `since`; in a sequential suite, those that it created. */
export async function countOrders({ client }: Caller, since: Instant): Promise<number> {
  const { elements, hasMore } = await client.listOrders({
    updatedSince: since,
    updatedUntil: addSeconds(since, 3_600),
    limit: 200,
  });
  if (hasMore) throw new Error("more than 200 orders changed during one test");
  return elements.length;
}
