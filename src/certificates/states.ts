import { parseInstant } from "../domain/order/instant.ts";
import { readSnapshot } from "../wire/order.ts";
import type { CheckedCertificate } from "./checkCertificate.ts";
import { makeMultisetHash } from "./multisetHash.ts";
import type { OrderState } from "./multisetHash.ts";

/** How orders differ from a certificate. */
export interface Comparison {
  readonly orders: number;
  /** The orders are exactly the certified ones. */
  readonly equal: boolean;
  /** Rows that cannot be certified states: repeated, or outside the period. */
  readonly unfit: readonly string[];
}

/** Compares states from an export with those that a certificate is about. */
export function compareStates(states: readonly OrderState[], certificate: CheckedCertificate): Comparison {
  const { source, since, until, orders } = certificate.predicate;
  const [from, to] = [parseInstant(since), parseInstant(until)];
  const sum = makeMultisetHash(source);
  const seen = new Set<string>();
  const unfit: string[] = [];
  for (const state of states) {
    const { reference, version } = state;
    if (seen.has(reference)) unfit.push(`${reference}: occurs more than once`);
    if (version < from || version >= to) unfit.push(`${reference}: its updatedAt is outside the period`);
    seen.add(reference);
    sum.add(state);
  }
  const equal = unfit.length === 0 && states.length === orders && sum.digest() === certificate.subject;
  return { orders: states.length, equal, unfit };
}

/** What is missing, additional or different in `states`, row by row, given the certified states. */
export function listDifferences(states: readonly OrderState[], certified: readonly OrderState[]): string[] {
  const given = new Map(states.map((state) => [state.reference, state]));
  const known = new Set(certified.map(({ reference }) => reference));
  const wrong = certified.flatMap(({ reference, version, hash }) => {
    const found = given.get(reference);
    if (found === undefined) return [`${reference}: missing`];
    if (found.version !== version)
      return [`${reference}: another state, with updatedAt ${found.version} instead of ${version}`];
    return found.hash === hash ? [] : [`${reference}: the same updatedAt, different content`];
  });
  const extra = states.filter(({ reference }) => !known.has(reference));
  return [...wrong, ...extra.map(({ reference }) => `${reference}: not certified`)];
}

const HEADER = "version,content_hash,reference";
const ROW = /^(-?\d+),([0-9a-f]{64}),(?:"((?:[^"]|"")+)"|([^"]+))$/;

/** States as CSV: without content, and so without personal data. */
export function writeStates(states: readonly OrderState[]): string {
  return states.map(({ version, hash, reference }) => `${version},${hash},${quote(reference)}\r\n`).join("");
}

/** The first line of such a file. */
export const STATES_HEADER = `${HEADER}\r\n`;

/**
 * Reads states from the lines of NDJSON with an order per line, or of the CSV that writeStates writes. Rejects with the
 * error of `refuse`, called with the number of the first line that cannot be read.
 */
export async function readStates(
  lines: AsyncIterable<string> | Iterable<string>,
  refuse: (line: number) => Error,
): Promise<OrderState[]> {
  const states: OrderState[] = [];
  let number = 0;
  let read = readOrder;
  for await (const ended of lines) {
    const line = ended.replace(/\r$/, "");
    number += 1;
    if (number === 1 && line === HEADER) read = readRow;
    else if (line !== "") {
      const state = read(line);
      if (state === undefined) throw refuse(number);
      states.push(state);
    }
  }
  return states;
}

function readRow(line: string): OrderState | undefined {
  const [, version, hash, quoted, plain] = ROW.exec(line) ?? [];
  if (version === undefined || hash === undefined) return undefined;
  return { version: BigInt(version), hash, reference: quoted?.replaceAll('""', '"') ?? plain ?? "" };
}

function readOrder(line: string): OrderState | undefined {
  try {
    const { fields, version, hash } = readSnapshot(line, JSON.parse(line));
    return { reference: fields.reference, version, hash };
  } catch {
    return undefined;
  }
}

function quote(text: string): string {
  return /[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
