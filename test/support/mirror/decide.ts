import { addSeconds, type Instant } from "../../../src/domain/order/instant.ts";
import { CLOCK_TRUST_SECONDS, compareKeys, type OrderKey } from "../../../src/domain/order/observation.ts";

/**
 * A horizon ahead of the present, by our database's clock, counts as none: whatever clock it came from was wrong, and
 * believed until then, it would outlive every true read.
 */
export function withoutFuture(key: OrderKey, present: Instant): OrderKey {
  const limit = addSeconds(present, CLOCK_TRUST_SECONDS);
  return key.horizon !== null && key.horizon > limit ? { ...key, horizon: null } : key;
}

/** What the last digit of an instant stands for, in nanoseconds: at most a second. Zeros at its end are no digits. */
function lastDigitOf(instant: Instant): bigint {
  let digit = 1n;
  while (digit < 1_000_000_000n && instant % (digit * 10n) === 0n) digit *= 10n;
  return digit;
}

/** Whether two instants are the same, of which one may have been cut or rounded to its digits. */
export function isSameInstant(one: Instant, other: Instant): boolean {
  const [smaller, greater] = one < other ? [one, other] : [other, one];
  const [left, right] = [lastDigitOf(one), lastDigitOf(other)];
  return smaller === greater || greater - smaller < (left > right ? left : right);
}

/**
 * What an incoming observation does to the stored one:
 * - `apply`: it is greater and its content differs, or nothing is stored yet;
 * - `correct`: the same, with an older version: a read has refuted the claim that is stored, or the provider went back;
 * - `confirm`: the same state, but the key moves up: a read has settled the version, its horizon lies further on, or the
 *   version has more digits;
 * - `none`: nothing is written.
 *
 * `present` is our database's time. A settled version that is read again by a read of the same horizon, or none, writes
 * nothing, however often: its content can only be the same. The model of the guard in apply/applyBatch.sql.ts.
 */
export function decide(
  stored: OrderKey | undefined,
  incoming: OrderKey,
  present: Instant,
): "apply" | "correct" | "confirm" | "none" {
  if (stored === undefined) return "apply";
  const [known, seen] = [withoutFuture(stored, present), withoutFuture(incoming, present)];
  if (compareKeys(seen, known) <= 0) return "none";
  const isSame = isSameInstant(seen.version, known.version);
  if (!isSame || seen.hash !== known.hash || known.gone)
    return seen.version < known.version ? "correct" : "apply";
  const reachesNoFurther = seen.horizon === null || seen.horizon === known.horizon;
  const isKnown =
    seen.version === known.version
      ? known.settled && seen.horizon === known.horizon
      : reachesNoFurther && lastDigitOf(known.version) <= lastDigitOf(seen.version);
  return isKnown ? "none" : "confirm";
}

/** The stored key after an observation that was not `none`: the version with more digits stays while a read covers it. */
export function settle(stored: OrderKey | undefined, incoming: OrderKey, present: Instant): OrderKey {
  const seen = withoutFuture(incoming, present);
  if (stored === undefined || decide(stored, incoming, present) !== "confirm") return seen;
  const keeps =
    lastDigitOf(stored.version) < lastDigitOf(seen.version) && (seen.horizon ?? -1n) >= stored.version;
  if (!keeps) return seen;
  const settled = seen.settled && seen.horizon !== stored.version;
  return { ...seen, version: stored.version, settled };
}
