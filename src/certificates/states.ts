import { parseInstant } from "../domain/order/instant.ts";
import { writeCsvTable } from "../orders/export/orderCsv.ts";
import type { CheckedCertificate } from "./checkCertificate.ts";
import { makeMultisetHash } from "./multisetHash.ts";
import type { OrderState } from "../domain/order/order.ts";

/** How orders differ from a certificate. */
export interface Comparison {
  /** Those of the period. */
  readonly orders: number;
  /** They are exactly the certified ones. */
  readonly equal: boolean;
  /** References that occur more than once in the period. */
  readonly repeated: readonly string[];
  /** Orders with an updatedAt outside the period, which the certificate is not about. */
  readonly outside: number;
}

/** Compares states from an export with those that a certificate is about. */
export function compareStates(states: readonly OrderState[], certificate: CheckedCertificate): Comparison {
  const { source, orders } = certificate.predicate;
  const sum = makeMultisetHash(source);
  const seen = new Set<string>();
  const repeated: string[] = [];
  const inside = states.filter(isInPeriod(certificate));
  for (const state of inside) {
    if (seen.has(state.reference)) repeated.push(state.reference);
    seen.add(state.reference);
    sum.add(state);
  }
  const equal = repeated.length === 0 && inside.length === orders && sum.digest() === certificate.subject;
  return { orders: inside.length, equal, repeated, outside: states.length - inside.length };
}

/** What is missing, additional or different in `states`, row by row, given the certified states. */
export function listDifferences(
  states: readonly OrderState[],
  certified: readonly OrderState[],
  certificate: CheckedCertificate,
): string[] {
  const given = new Map(states.map((state) => [state.reference, state]));
  const known = new Set(certified.map(({ reference }) => reference));
  const wrong = certified.flatMap(({ reference, version, hash }) => {
    const found = given.get(reference);
    if (found === undefined) return [`${reference}: missing`];
    if (found.version !== version)
      return [`${reference}: another state, with updatedAt ${found.version} instead of ${version}`];
    return found.hash === hash ? [] : [`${reference}: the same updatedAt, different content`];
  });
  const isInside = isInPeriod(certificate);
  const extra = states.filter((state) => !known.has(state.reference) && isInside(state));
  return [...wrong, ...extra.map(({ reference }) => `${reference}: not certified`)];
}

function isInPeriod({ predicate }: CheckedCertificate): (state: OrderState) => boolean {
  const [since, until] = [parseInstant(predicate.since), parseInstant(predicate.until)];
  return ({ version }) => version >= since && version < until;
}

/** The first line of the states as CSV. */
export const STATES_HEADER = writeCsvTable([["version", "content_hash", "reference"]]);

/** States as CSV: without content, and so without personal data. */
export function writeStates(states: readonly OrderState[]): string {
  return writeCsvTable(states.map(({ version, hash, reference }) => [String(version), hash, reference]));
}
