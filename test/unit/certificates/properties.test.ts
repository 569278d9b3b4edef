import fc from "fast-check";
import { expect, it } from "vitest";
import { checkChain } from "../../../src/certificates/checkCertificate.ts";
import { digestPayload, openEnvelope, sealEnvelope } from "../../../src/certificates/envelope.ts";
import { makeMultisetHash } from "../../../src/certificates/multisetHash.ts";
import type { OrderState } from "../../../src/domain/order/order.ts";
import {
  compareStates,
  listDifferences,
  STATES_HEADER,
  writeStates,
} from "../../../src/certificates/states.ts";
import { readStatement, writeStatement } from "../../../src/certificates/statement.ts";
import type { Statement } from "../../../src/certificates/statement.ts";
import { statesOf } from "../../support/signing/statesOf.ts";
import { makeKeys } from "../../support/signing/certificateKeys.ts";

const hex = (length: number) =>
  fc.uint8Array({ minLength: length, maxLength: length }).map((bytes) => Buffer.from(bytes).toString("hex"));
const arbitraryState: fc.Arbitrary<OrderState> = fc.record({
  reference: fc.oneof(
    fc.constantFrom("A", 'C"', "D,E", "1", "=1", "'=1", "''-1", "'A", "\t1", "a\nb", "a\r\nb", '="1"', " =1"),
    fc.string({ minLength: 1, maxLength: 20, unit: "grapheme" }),
  ),
  version: fc.bigInt(0n, 2n ** 63n - 1n),
  hash: hex(32),
});
const arbitraryStates = fc.uniqueArray(arbitraryState, {
  selector: ({ reference }) => reference,
  maxLength: 12,
});

function sum(states: readonly OrderState[], sourceId = "live"): string {
  const hash = makeMultisetHash(sourceId);
  for (const state of states) hash.add(state);
  return hash.digest();
}

it("sums the same states to the same hash in any order", () => {
  const shuffled = arbitraryStates.chain((states) =>
    fc.tuple(fc.constant(states), fc.shuffledSubarray(states, { minLength: states.length })),
  );
  fc.assert(
    fc.property(shuffled, ([states, others]) => {
      expect(sum(others)).toBe(sum(states));
    }),
  );
});

it("forgets a state that is removed, and follows a state that changes", () => {
  fc.assert(
    fc.property(arbitraryStates, arbitraryState, arbitraryState, (states, before, after) => {
      const hash = makeMultisetHash("live");
      for (const state of [...states, before]) hash.add(state);
      hash.remove(before);
      expect(hash.digest()).toBe(sum(states));
      hash.add(after);
      expect(hash.digest()).toBe(sum([...states, after]));
    }),
  );
});

it("changes with any single change of the states: one missing, added, repeated or different, or of another source", () => {
  const withOne = arbitraryStates.filter(({ length }) => length > 0);
  fc.assert(
    fc.property(withOne, arbitraryState, fc.nat(), (states, other, place) => {
      const index = place % states.length;
      const one = states[index]!;
      const rest = states.toSpliced(index, 1);
      const known = sum(states);
      expect(sum(rest)).not.toBe(known);
      expect(sum([...states, other])).not.toBe(known);
      expect(sum([...states, one])).not.toBe(known);
      for (const change of [
        { reference: `${one.reference}0` },
        { version: one.version + 1n },
        { hash: one.hash.replace(/^./, (digit) => (digit === "0" ? "1" : "0")) },
      ]) {
        expect(sum([...rest, { ...one, ...change }])).not.toBe(known);
      }
      expect(sum(states, "test")).not.toBe(known);
    }),
  );
});

it("tells states apart whose parts join to the same text", () => {
  const state = { version: 1n, hash: "00" };
  expect(sum([{ ...state, reference: "A1" }])).not.toBe(sum([{ ...state, reference: "A", version: 11n }]));
});

it("reads the states that it writes as CSV", async () => {
  await fc.assert(
    fc.asyncProperty(arbitraryStates, async (states) => {
      expect(await statesOf(STATES_HEADER + writeStates(states))).toEqual(states);
    }),
  );
});

const time = (seconds: number) =>
  new Date(1_790_000_000_000 + seconds * 1_000).toISOString().replace(".000Z", "Z");
const keys = makeKeys();
const [key] = keys;

/** A chain of that many certificates, each followed by a rotation of the key where `rotates` says so. */
function makeChain(rotates: readonly boolean[], states: readonly OrderState[] = []): string[] {
  const lines: string[] = [];
  let signer = key;
  let previous: string | null = null;
  const add = (
    make: (link: { source: string; serial: number; previous: string | null; issuedAt: string }) => Statement,
    signers = [signer],
  ) => {
    const payload = writeStatement(
      make({ source: "live", serial: lines.length + 1, previous, issuedAt: time(0) }),
    );
    previous = digestPayload(payload);
    lines.push(sealEnvelope(payload, signers));
  };
  add((link) => ({
    kind: "key",
    subject: key.keyId,
    predicate: { ...link, publicKey: key.publicKey, replaces: null },
  }));
  for (const rotate of rotates) {
    add((link) => ({
      kind: "completeness",
      subject: sum(states),
      predicate: {
        ...link,
        since: time(0),
        until: time(86_400),
        orders: states.length,
        gone: 0,
        claimed: 0,
        proof: {
          provider: "p",
          database: "d",
          historySince: time(0),
          safeThrough: time(90_000),
          marginSeconds: 900,
          windows: [
            {
              since: time(0),
              until: time(90_000),
              sweep: "delayed",
              provider: "p",
              database: "d",
              fence: "1",
              settleSeconds: 5,
              overlapSeconds: 60,
              windows: 1,
              requests: 1,
            },
          ],
        },
        exceptions: [],
        breaches: [],
      },
    }));
    if (!rotate) continue;
    const former = signer;
    [signer] = makeKeys();
    const { keyId, publicKey } = signer;
    add(
      (link) => ({ kind: "key", subject: keyId, predicate: { ...link, publicKey, replaces: former.keyId } }),
      [signer, former],
    );
  }
  return lines;
}

it("accepts a chain, also from a later statement on, and refuses one with a gap, a repetition or another order", () => {
  fc.assert(
    fc.property(fc.array(fc.boolean(), { minLength: 2, maxLength: 5 }), fc.nat(), (rotates, place) => {
      const lines = makeChain(rotates);
      expect(checkChain(lines, key)).toMatchObject({ statements: lines.length, problem: undefined });
      expect(checkChain(lines.slice(1), key).problem).toBeUndefined();
      const index = 1 + (place % (lines.length - 2));
      for (const broken of [
        lines.toSpliced(index, 1),
        lines.toSpliced(index, 0, lines[index]!),
        lines.toSpliced(index, 2, lines[index + 1]!, lines[index]!),
      ]) {
        expect(checkChain(broken, key).problem).toBeDefined();
      }
      expect(checkChain(lines, makeKeys()[0]).problem).toContain("not signed");
    }),
    { numRuns: 30 },
  );
});

it("refuses an envelope in which any byte is changed", () => {
  const [, line = ""] = makeChain([false]);
  const bytes = Buffer.from(line);
  fc.assert(
    fc.property(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), (place, difference) => {
      const changed = Buffer.from(bytes);
      changed[place]! ^= difference;
      expect(checkChain([changed.toString("latin1")], key).problem).toBeDefined();
    }),
    { numRuns: 500 },
  );
  expect(checkChain([line], key).problem).toBeUndefined();
  // The same meaning in another text.
  expect(openEnvelope(line.replace('"payload"', ' "payload"'))).toBeUndefined();
});

it("reads only what it writes itself", () => {
  const [, line = ""] = makeChain([false]);
  const { payload } = openEnvelope(line)!;
  expect(readStatement(payload)).toBeDefined();
  expect(
    readStatement(Buffer.from(payload.toString().replace('"orders":0', '"orders":0,"more":1'))),
  ).toBeUndefined();
  expect(readStatement(Buffer.from("null"))).toBeUndefined();
  expect(readStatement(Buffer.from("{"))).toBeUndefined();
});

it("refuses a new key that the former one has not signed, or that has not signed itself", () => {
  const [first = ""] = makeChain([]);
  const [other] = makeKeys();
  const name = (subject: typeof other, signers: readonly (typeof other)[]) => {
    const predicate = { source: "live", serial: 2, previous: openEnvelope(first)!.digest, issuedAt: time(0) };
    const { keyId, publicKey } = subject;
    const statement = {
      kind: "key" as const,
      subject: keyId,
      predicate: { ...predicate, publicKey, replaces: key.keyId },
    };
    return checkChain([first, sealEnvelope(writeStatement(statement), signers)], key).problem;
  };
  expect(name(other, [other, key])).toBeUndefined();
  expect(name(other, [other])).toContain("not signed by the key");
  expect(name(other, [key])).toContain("not signed by the key that it names");
});

it("says of each row what differs from the certified states", () => {
  fc.assert(
    fc.property(
      arbitraryStates,
      fc.array(fc.constantFrom("keep", "drop", "age", "edit")),
      arbitraryState,
      (states, fates, extra) => {
        const inside = states.map((state, index) => ({
          ...state,
          version: 1_790_000_000_000_000_000n + BigInt(index),
        }));
        const [, line = ""] = makeChain([false], inside);
        const [certificate] = checkChain([line], key).certificates;
        const fate = (index: number) => fates[index] ?? "keep";
        const isNew =
          inside.every(({ reference }) => reference !== extra.reference) && fates.length % 2 === 1;
        const given = inside.flatMap((state, index) => {
          if (fate(index) === "drop") return [];
          if (fate(index) === "age") return [{ ...state, version: state.version + 100n }];
          return [fate(index) === "edit" ? { ...state, hash: "0".repeat(64) } : state];
        });
        if (isNew) given.push({ ...extra, version: 1_790_000_000_000_000_000n });
        const wrong = inside.filter((_, index) => fate(index) !== "keep").map(({ reference }) => reference);
        const expected = [...wrong, ...(isNew ? [extra.reference] : [])];
        expect(compareStates(given, certificate!).equal).toBe(expected.length === 0);
        expect(compareStates(inside, certificate!).equal).toBe(true);
        expect(
          listDifferences(given, inside, certificate!).map((text) => text.replace(/: [^:]*$/, "")),
        ).toEqual(expected);
      },
    ),
    { numRuns: 50 },
  );
});
