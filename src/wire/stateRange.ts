import { hash } from "node:crypto";
import type { Instant } from "../domain/order/instant.ts";

/**
 * A place in the sequence of all states of orders, which is sorted by version and then by hash. Neither depends on the
 * collation of a database, which differs between the mirror and its readers.
 */
export interface StateBound {
  readonly version: Instant;
  /** Hexadecimal, of an even length; empty: before all states of the version. */
  readonly hash: string;
}

export interface StateRange {
  /** Inclusive. */
  readonly since: StateBound;
  /** Exclusive. */
  readonly until: StateBound;
}

/** Which states a range has: equal for equal sets, and different for different ones but for chance, 1 in 2^128. */
export interface RangeSum {
  readonly count: number;
  /** The digests of all states, combined by exclusive or. */
  readonly sum: bigint;
}

const VERSION_MAX = 2n ** 63n - 1n;
/** Before every state. */
export const FIRST_BOUND: StateBound = { version: -(2n ** 63n), hash: "" };
/** Behind every state: no order has the last version. */
export const LAST_BOUND: StateBound = { version: VERSION_MAX, hash: "" };

const BOUND = /^(-?\d{1,19})(?:\.((?:[0-9a-f]{2}){1,33}))?$/;
const DIGEST_HEX = 32;

/** Such as `1763000000000000000`, or with a hash `1763000000000000000.5e88`. */
export function writeBound({ version, hash: after }: StateBound): string {
  return after === "" ? String(version) : `${version}.${after}`;
}

/** Parses a bound of writeBound; undefined for any other text. */
export function readBound(text: string): StateBound | undefined {
  const [, digits, after = ""] = BOUND.exec(text) ?? [];
  if (digits === undefined) return undefined;
  const version = BigInt(digits);
  return BigInt.asIntN(64, version) === version ? { version, hash: after } : undefined;
}

/** The bound directly behind a state: no other state is between. */
export function boundBehind(state: StateBound): StateBound {
  return { version: state.version, hash: `${state.hash}00` };
}

/** Negative if `a` is before `b`, 0 if equal. */
export function compareBounds(a: StateBound, b: StateBound): number {
  if (a.version !== b.version) return a.version < b.version ? -1 : 1;
  if (a.hash === b.hash) return 0;
  return a.hash < b.hash ? -1 : 1;
}

/** Such as `31250.` and 32 hexadecimal digits. */
export function writeFingerprint({ count, sum }: RangeSum): string {
  return `${count}.${sum.toString(16).padStart(DIGEST_HEX, "0")}`;
}

/**
 * What a state contributes to a fingerprint. The salt is new for each exchange and chosen by the reader, so nobody can
 * prepare two different sets with the same sum. See digestOf in stateRange.sql.ts.
 */
export function digestState(salt: string, stateHash: string): bigint {
  const digest = hash("sha256", Buffer.from(salt + stateHash, "hex"), "hex");
  return BigInt(`0x${digest.slice(0, DIGEST_HEX)}`);
}
