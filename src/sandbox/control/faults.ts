import { z } from "zod";
import { CONTRACT_ENDPOINTS } from "../../wire/endpoints.ts";

/** Names of the endpoints, as used by faults and journal. @internal */
export const ENDPOINT_NAMES = CONTRACT_ENDPOINTS.map(({ name }) => name);

/** Form values are text; an empty field counts as absent. */
const share = z.coerce.number().min(0).max(1);
const delayMs = z.coerce.number().int().min(0).max(86_400_000);
const offsetMs = z.coerce.number().int().min(-86_400_000).max(86_400_000);
const flag = z.union([z.boolean(), z.enum(["true", "false"]).transform((text) => text === "true")]);
const GRANULARITIES = ["s", "ms", "us", "ns"] as const;
export type Granularity = (typeof GRANULARITIES)[number];

/**
 * Misbehaviour that cannot be requested from a real provider. All faults are off by default and can be changed while
 * the sandbox runs. Shares are in [0, 1] and select the same events and requests in every run with the same seed.
 */
export const faultsSchema = z.strictObject({
  /** Share of events that are never sent. */
  loseShare: share,
  /** Share of events that are sent twice. */
  duplicateShare: share,
  /** Share of events that are sent `delayMs` late. */
  delayShare: share,
  delayMs,
  /** Share of events delayed by a random part of `reorderWindowMs`, so that later ones overtake them. */
  reorderShare: share,
  reorderWindowMs: delayMs,
  /** Share of events with a wrong signature, on every attempt while this is on. */
  corruptShare: share,
  /** Share of changes that readers see only `lateCommitMs` after their updatedAt; their event is on time. */
  lateCommitShare: share,
  lateCommitMs: delayMs,
  /** By how much the provider's clock is ahead: the Date header and every timestamp. */
  clockSkewMs: offsetMs,
  /** Share of changes whose updatedAt, but not the Date header, is off by `misstampMs` (positive: ahead). */
  misstampShare: share,
  misstampMs: offsetMs,
  /** Lets an order's updatedAt decrease, as after a wrong timestamp or a clock that was set back. */
  versionsMayDecrease: flag,
  timestampGranularity: z.enum(GRANULARITIES),
  /** Of the timestamps in events; `same` as everywhere else. */
  eventTimestampGranularity: z.enum(["same", ...GRANULARITIES]),
  listOrder: z.enum(["ascending", "descending", "unsorted"]),
  /** `random`: rows with equal timestamps change their order with every request. */
  listTies: z.enum(["stable", "random"]),
  listBounds: z.enum(["half-open", "inclusive", "exclusive"]),
  /** A larger `limit` is silently reduced to this. */
  listLimitMax: z.coerce.number().int().min(1).max(200),
  /** Share of requests answered with 429 although the budget is not used up. */
  refuseShare: share,
  refuseRetryAfterSeconds: z.coerce.number().int().min(0).max(3_600),
  /** Share of requests answered with `failStatus` before any work. */
  failShare: share,
  /** Share of orders whose single read is always answered with `failStatus`; lists show them. */
  brokenOrderShare: share,
  failStatus: z.coerce.number().int().min(500).max(599),
  latencyMs: delayMs,
  /** Additional random latency, at most this much. */
  latencyJitterMs: delayMs,
  /** Share of answers whose JSON is cut off half-way, with a matching Content-Length. */
  truncateShare: share,
  /** Share of connections closed before any work. */
  dropBeforeShare: share,
  /** Share of connections closed after the work without an answer: the caller cannot know the outcome. */
  dropAfterShare: share,
  /** Request faults apply only to these endpoints, comma separated; or `all`. */
  onlyEndpoints: z.string().max(255).refine(namesEndpoints, "names of endpoints, comma separated, or all"),
});
export type Faults = Readonly<z.infer<typeof faultsSchema>>;

export const NO_FAULTS: Faults = Object.freeze({
  loseShare: 0,
  duplicateShare: 0,
  delayShare: 0,
  delayMs: 5_000,
  reorderShare: 0,
  reorderWindowMs: 5_000,
  corruptShare: 0,
  lateCommitShare: 0,
  lateCommitMs: 3_000,
  clockSkewMs: 0,
  misstampShare: 0,
  misstampMs: 60_000,
  versionsMayDecrease: false,
  timestampGranularity: "ms",
  eventTimestampGranularity: "same",
  listOrder: "ascending",
  listTies: "stable",
  listBounds: "half-open",
  listLimitMax: 200,
  refuseShare: 0,
  refuseRetryAfterSeconds: 5,
  failShare: 0,
  brokenOrderShare: 0,
  failStatus: 503,
  latencyMs: 0,
  latencyJitterMs: 0,
  truncateShare: 0,
  dropBeforeShare: 0,
  dropAfterShare: 0,
  onlyEndpoints: "all",
});

/** Whether request faults apply to this endpoint. */
export function hitsEndpoint({ onlyEndpoints }: Pick<Faults, "onlyEndpoints">, endpoint: string): boolean {
  return onlyEndpoints === "all" || splitNames(onlyEndpoints).includes(endpoint);
}

function namesEndpoints(text: string): boolean {
  const known: readonly string[] = ENDPOINT_NAMES;
  return text === "all" || splitNames(text).every((name) => known.includes(name));
}

function splitNames(text: string): string[] {
  return text.split(",").map((name) => name.trim());
}

export const faultsPatchSchema = faultsSchema.partial();
export type FaultsPatch = { readonly [Name in keyof Faults]?: Faults[Name] | undefined };

/** The current faults; one instance per sandbox. */
export interface FaultSwitches {
  readonly current: () => Faults;
  /** Changes the named faults and keeps the others. */
  readonly set: (patch: FaultsPatch) => Faults;
  /** Resets to NO_FAULTS, not to the sandbox's initial faults. */
  readonly clear: () => Faults;
}

export function makeFaultSwitches(initial: FaultsPatch = {}): FaultSwitches {
  const merge = (base: Faults, patch: FaultsPatch): Faults =>
    faultsSchema.parse({ ...base, ...faultsPatchSchema.parse(patch) });
  let faults = merge(NO_FAULTS, initial);
  return {
    current: () => faults,
    set: (patch) => {
      faults = merge(faults, patch);
      return faults;
    },
    clear: () => {
      faults = NO_FAULTS;
      return faults;
    },
  };
}
