import fc from "fast-check";
import { expect, it } from "vitest";
import { memoryOrders } from "../../../src/client/mirrorClient.ts";
import type { Order, StoredOrder } from "../../../src/client/mirrorClient.ts";
import {
  boundBehind,
  compareBounds,
  FIRST_BOUND,
  LAST_BOUND,
  readBound,
  writeBound,
} from "../../../src/wire/stateRange.ts";

const hex = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes) => Buffer.from(bytes).toString("hex"));
const version = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n }),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 2n }),
);
const state = fc.record({ version, hash: hex });
const WHOLE = { since: FIRST_BOUND, until: LAST_BOUND };
const SALT = "5a".repeat(16);

it("reads back every bound, and no other text", () => {
  fc.assert(
    fc.property(fc.oneof(state, fc.record({ version, hash: fc.constant("") })), (bound) => {
      expect(readBound(writeBound(bound))).toEqual(bound);
      expect(readBound(writeBound(boundBehind(bound)))).toEqual(boundBehind(bound));
    }),
  );
  for (const text of ["", " 1", "1.", "1.a", "1.AB", "0x1", "9223372036854775808", `1.${"ab".repeat(34)}`])
    expect([text, readBound(text)]).toEqual([text, undefined]);
});

it("has no state between a state and the bound behind it", () => {
  fc.assert(
    fc.property(state, state, (one, other) => {
      expect(compareBounds(one, boundBehind(one))).toBeLessThan(0);
      const isBetween = compareBounds(one, other) < 0 && compareBounds(other, boundBehind(one)) < 0;
      expect(isBetween).toBe(false);
    }),
  );
});

it("sums the same for any order of arrival, and otherwise for any single change", async () => {
  const orders = fc.uniqueArray(fc.record({ reference: fc.uuid(), version, hash: hex }), {
    selector: ({ reference }) => reference,
    minLength: 1,
    maxLength: 30,
  });
  const sumOf = async (states: readonly Omit<StoredOrder, "order">[], salt = SALT) =>
    (await memoryOrders(states.map((each) => ({ ...each, order: {} as Order }))).sums([WHOLE], salt))[0];
  await fc.assert(
    fc.asyncProperty(orders, fc.nat(), hex, async (states, place, other) => {
      const index = place % states.length;
      const sum = await sumOf(states);
      expect(await sumOf(states.toReversed())).toEqual(sum);
      expect(await sumOf(states.toSpliced(index, 1))).not.toEqual(sum);
      expect(await sumOf(states.with(index, { ...states[index]!, hash: other }))).not.toEqual(sum);
      expect((await sumOf(states, "00".repeat(16)))?.sum).not.toEqual(sum?.sum);
    }),
  );
});
