import { z } from "zod";

/** Form values are text; an empty field counts as absent. */
const share = z.coerce.number().min(0).max(1).default(0);
const delayMs = z.coerce.number().int().min(0).max(86_400_000);
const offsetMs = z.coerce.number().int().min(-86_400_000).max(86_400_000);
const GRANULARITIES = ["s", "ms", "us", "ns"] as const;
export type Granularity = (typeof GRANULARITIES)[number];

/**
 * Misbehaviour that cannot be requested from a real provider. All faults are off by default and can be changed while
 * the sandbox runs. Shares are in [0, 1] and select the same events and requests in every run with the same seed. The
 * descriptions are for people who turn these dials.
 */
export const faultsSchema = z.strictObject({
  loseShare: share.describe("Events that are never sent"),
  duplicateShare: share.describe("Events that are sent twice"),
  /** Delays by a random part of `delayMs`, so that later ones overtake them. */
  delayShare: share.describe("Events that are sent late"),
  delayMs: delayMs.default(5_000).describe("How late at most, in ms"),
  /** The signature is wrong on every attempt while this is on. */
  corruptShare: share.describe("Events with a wrong signature"),
  /** The event of such a change is on time. */
  lateCommitShare: share.describe("Changes that readers see late"),
  lateCommitMs: delayMs.default(3_000).describe("How late, in ms"),
  /** The Date header and every timestamp. */
  clockSkewMs: offsetMs.default(0).describe("Provider's clock ahead by, in ms"),
  timestampGranularity: z.enum(GRANULARITIES).default("ms").describe("Finest unit of timestamps"),
  eventTimestampGranularity: z
    .enum(["same", ...GRANULARITIES])
    .default("same")
    .describe("The same in events"),
  listOrder: z
    .enum(["ascending", "descending", "unsorted"])
    .default("ascending")
    .describe("Sorting of order lists"),
  /** `random`: in another order with every request. */
  listTies: z.enum(["stable", "random"]).default("stable").describe("Orders with equal timestamps"),
  listBounds: z
    .enum(["half-open", "inclusive", "exclusive"])
    .default("half-open")
    .describe("Bounds of since and until"),
  /** A larger `limit` is silently reduced to this. */
  listLimitMax: z.coerce.number().int().min(1).max(200).default(200).describe("Most orders on a page"),
  onlyEndpoint: z
    .enum([
      "all",
      "createOrder",
      "quoteOrder",
      "listOrders",
      "getOrder",
      "updateOrder",
      "cancelOrder",
      "advanceOrder",
      "validateAddress",
      "listBranches",
    ])
    .default("all")
    .describe("Endpoint whose requests fail, wait or break off"),
  /** A request fails before any work. */
  failShare: share.describe("Requests that fail"),
  /** Always; lists show them. */
  brokenOrderShare: share.describe("Orders whose single read fails"),
  failStatus: z.coerce.number().int().min(500).max(599).default(503).describe("Status of a failure"),
  latencyMs: delayMs.default(0).describe("Latency of each answer, in ms"),
  /** Half-way in the JSON, with a matching Content-Length. */
  truncateShare: share.describe("Answers that are cut off"),
  dropBeforeShare: share.describe("Connections closed before the work"),
  /** The caller cannot know the outcome. */
  dropAfterShare: share.describe("Connections closed after the work"),
});
export type Faults = Readonly<z.infer<typeof faultsSchema>>;

export const NO_FAULTS: Faults = Object.freeze(faultsSchema.parse({}));

/** The faults that differ from their default. */
export function listChanged(faults: Faults): (keyof Faults)[] {
  return (Object.keys(NO_FAULTS) as (keyof Faults)[]).filter((name) => faults[name] !== NO_FAULTS[name]);
}

export type FaultsPatch = { readonly [Name in keyof Faults]?: Faults[Name] | undefined };

export type FaultSwitches = ReturnType<typeof makeFaultSwitches>;

export function makeFaultSwitches(initial: FaultsPatch = {}) {
  const merge = (base: Faults, patch: FaultsPatch): Faults => faultsSchema.parse({ ...base, ...patch });
  let faults = merge(NO_FAULTS, initial);
  return {
    current: () => faults,
    set: (patch: FaultsPatch) => {
      faults = merge(faults, patch);
      return faults;
    },
  };
}
