import { expect } from "vitest";
import { makeTestSandbox, speakTo } from "../providers/testSandbox.ts";
import { addSeconds, instantFromMillis, type Instant } from "../../../src/domain/order/instant.ts";
import { type SandboxOptions } from "../../../src/sandbox/startSandbox.ts";
import { makeContractClient, type Ask, type RawAnswer } from "./contractClient.ts";
import { openContractMirror } from "./contractMirror.ts";

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

/**
 * The provider that the contract suite tests: a sandbox of each file's own or, with CONTRACT_TARGET=mirror, the mirror in
 * front of one. The mirror must answer as the provider does, except for what mirrorExceptions.ts lists.
 */
export async function openTarget(options: Partial<SandboxOptions> = {}) {
  const sandbox = await makeTestSandbox(options);
  const mirror =
    process.env["CONTRACT_TARGET"] === "mirror"
      ? await openContractMirror(sandbox.database, sandbox)
      : undefined;
  const { url: baseUrl, keys } = mirror ?? { url: sandbox.url, keys: KEYS };
  const { steer } = mirror ?? sandbox;
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
    /** Does what the dashboard and the fleet would do. */
    steer,
    /** What an organization would be charged for. */
    figures: async (organization: string): Promise<Record<"orders" | "charges" | "searches", number>> => {
      const { organizations } = await steer("GET", "/state");
      return organizations.find(
        ({ organizationId }: { organizationId: string }) => organizationId === organization,
      );
    },
    async close() {
      await mirror?.close();
      await sandbox.close();
    },
  };
}

/** One key: `ask` for what the spec does not allow, and `client` for the rest. */
export type Caller = ReturnType<typeof makeCaller>;

export function makeCaller(baseUrl: string, apiKey: string | null) {
  const ask: Ask = async (method, path, body) => {
    const headers = body === undefined ? {} : { "content-type": "application/json" };
    const options = { key: apiKey, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
    const answer = await speakTo({ url: baseUrl }).ask(method, path, options);
    const { status, json } = answer;
    if (status < 400) return { ...answer, body: json, code: undefined };
    expect(answer.headers.get("content-type")).toMatch(/^application\/json/);
    // Assumed: the code is in `error.code`; the spec does not show the body.
    const error = { code: expect.any(String) as string, message: expect.any(String) as string };
    expect(json).toMatchObject({ error, request_id: expect.any(String) as string });
    return { ...answer, body: json, code: json.error.code as string };
  };
  return { apiKey: apiKey ?? "", ask, client: makeContractClient(ask) };
}

/** Refused, by whatever status and code. */
export const isRefused = ({ status }: Pick<RawAnswer, "status">) => status >= 400 && status < 500;

let madeIds = 0;

/** An externalOrderId that no earlier run has used. */
export function freshId(): string {
  madeIds += 1;
  return `contract-${Date.now().toString(36)}-${madeIds}`;
}

/** A body for POST /v1/orders that is accepted unchanged. */
export function orderFor(fields: { externalOrderId?: string; branch?: string; zoneCode?: string } = {}) {
  return {
    externalOrderId: freshId(),
    branch: WORLD.branch,
    customer: { firstName: "Ada", phone: "+31 6 1234 5678", address: WORLD.addresses.valid },
    schedule: { mode: "asap" },
    ...fields,
  };
}

/** The same with another delivery address. */
export function orderTo(address: object, fields: Parameters<typeof orderFor>[0] = {}) {
  const order = orderFor(fields);
  return { ...order, customer: { ...order.customer, address } };
}

/** The instant by this machine's clock, which is the sandbox's. */
export const clockNow = (): Instant => instantFromMillis(Date.now());

/** The number of orders that changed since `since`; in a sequential suite, those that it created. */
export async function countOrders({ client }: Caller, since: Instant): Promise<number> {
  const period = { updatedSince: since, updatedUntil: addSeconds(since, 3_600) };
  const { data, hasMore } = await client.listOrders({ ...period, limit: 200 });
  if (hasMore) throw new Error("more than 200 orders changed during one test");
  return data.length;
}
