import type { Priority } from "../../domain/source/orderSource.ts";
import type { RateRule } from "../../domain/window/budget.ts";

/** Policies of the spec, "Limits". */
const POLICIES = ["sustained", "order-list", "geocoding"] as const;
export type PolicyName = (typeof POLICIES)[number];

/** The limits of the spec, per organization and mode. */
export const SPEC_LIMITS: Readonly<Record<PolicyName, RateRule>> = {
  sustained: { requestsMax: 200, windowMs: 10_000 },
  "order-list": { requestsMax: 20, windowMs: 10_000 },
  geocoding: { requestsMax: 100, windowMs: 10_000 },
};

const UNLIMITED = { requestsMax: 1_000_000, windowMs: 1_000 };

/** Of a mirror, whose reads have no rate limits; a 429 is respected anyway. */
export const NO_LIMITS: typeof SPEC_LIMITS = {
  sustained: UNLIMITED,
  "order-list": UNLIMITED,
  geocoding: UNLIMITED,
};

/** Half of the limit for all requests: with writes forwarded, two processes do not know of each other. */
export const HALF_LIMITS: typeof SPEC_LIMITS = {
  ...SPEC_LIMITS,
  sustained: { ...SPEC_LIMITS.sustained, requestsMax: SPEC_LIMITS.sustained.requestsMax / 2 },
};

/** The policies that a request under `policy` counts against: `sustained` covers all. */
export function policiesOf(policy: PolicyName): readonly PolicyName[] {
  return policy === "sustained" ? [policy] : [policy, "sustained"];
}

export function isPolicy(name: string): name is PolicyName {
  return (POLICIES as readonly string[]).includes(name);
}

export function mapPolicies<Value>(make: (policy: PolicyName) => Value): Record<PolicyName, Value> {
  return { sustained: make("sustained"), "order-list": make("order-list"), geocoding: make("geocoding") };
}

/** A count of zero for each priority. */
export function zeroCounts(): Record<Priority, number> {
  return { poll: 0, refetch: 0, backfill: 0, verify: 0 };
}
