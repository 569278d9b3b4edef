import fc from "fast-check";
import { expect, it } from "vitest";
import { endOfPrefix } from "../../../src/orders/orderFilter.sql.ts";

/** Code points at the borders of what UTF-8 can write, and a few others, so that texts often share a prefix. */
const point = fc
  .constantFrom(0x1, 0x61, 0x62, 0x7f, 0x80, 0xd7_ff, 0xe0_00, 0xff_ff, 0x1_00_00, 0x10_ff_ff)
  .map((code) => String.fromCodePoint(code));
const text = fc.string({ unit: point, maxLength: 4 });

it("a text lies from the prefix up to its end exactly if it begins with it", () => {
  fc.assert(
    fc.property(text, text, text, (prefix, rest, other) => {
      const end = endOfPrefix(prefix);
      for (const one of [prefix + rest, other]) {
        const bytes = Buffer.from(one);
        const isWithin =
          bytes.compare(Buffer.from(prefix)) >= 0 &&
          (end === undefined || bytes.compare(Buffer.from(end)) < 0);
        expect(isWithin).toBe(one.startsWith(prefix));
      }
    }),
  );
});
