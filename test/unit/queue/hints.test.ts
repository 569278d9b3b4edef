import fc from "fast-check";
import { expect, it } from "vitest";
import { readHint, writeHint } from "../../../src/queue/hints/hints.ts";

const seqs = fc.array(fc.integer({ min: 1, max: 999_999_999_999_999 }), { minLength: 1, maxLength: 200 });
const hex = (length: number) => fc.stringMatching(new RegExp(`^[0-9a-f]{${length}}$`, "u"));
const traceparent = fc.tuple(hex(32), hex(16)).map(([trace, span]) => `00-${trace}-${span}-01`);

it("parses every written hint, with and without its trace context", () => {
  fc.assert(
    fc.property(fc.record({ seqs, traceparent }, { requiredKeys: ["seqs"] }), (hint) => {
      expect(readHint(writeHint(hint))).toEqual(hint);
    }),
  );
});

it("fits into a notification of Postgres, which allows 8,000 bytes", () => {
  const largest = Array.from({ length: 200 }, () => Number.MAX_SAFE_INTEGER);
  expect(writeHint({ seqs: largest, traceparent: "0".repeat(55) }).length).toBeLessThan(8_000);
});

it("rejects anything else as a hint", () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      fc.pre(!/^\d/.test(text));
      expect(readHint(text)).toBeUndefined();
    }),
  );
  const almost = ["", ",", "1,", "1 ", "1,2 x", "1 00-zz", " 1", "-1", "1.5", '{"seqs":[1]}', "1".repeat(16)];
  expect(almost.map(readHint)).toEqual(almost.map(() => undefined));
});
