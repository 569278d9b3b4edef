import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { addressGroup } from "../../../src/runtime/http/failureThrottle.ts";

/** Zeros are frequent, because they are what can be left out. */
const word = fc.oneof(
  { weight: 2, arbitrary: fc.constant(0) },
  fc.constantFrom(1, 0xffff),
  fc.nat({ max: 0xffff }),
);
const words = (count: number) => fc.array(word, { minLength: count, maxLength: count });

/** Some way to write a word: leading zeros, lower or upper case. */
const spellWord = (value: number) =>
  fc
    .integer({ min: 1, max: 4 })
    .map((digits) => value.toString(16).padStart(digits, "0"))
    .chain((text) => fc.constantFrom(text, text.toUpperCase()));

/** Some way to write an address: any one run of zeros left out, the last words in decimal, a zone. */
function spell(address: readonly number[]): fc.Arbitrary<string> {
  const runs = address.flatMap((_, start) =>
    address.map((_each, index) => [start, index + 1] as const).filter(([from, to]) => from < to),
  );
  const empty = runs.filter(([from, to]) => address.slice(from, to).every((value) => value === 0));
  const [high = 0, low = 0] = address.slice(6);
  const decimal = `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;
  return fc
    .record({
      texts: fc.tuple(...address.map(spellWord)),
      run: fc.option(fc.constantFrom(...empty, [8, 8] as const)),
      inDecimal: fc.boolean(),
      zone: fc.constantFrom("", "%eth0", "%1"),
    })
    .map(({ texts, run, inDecimal, zone }) => {
      const [from, to] = run === null || run[0] === 8 ? [8, 8] : run;
      const tail = inDecimal && to <= 6 ? [...texts.slice(to, 6), decimal] : texts.slice(to);
      if (from !== 8) return `${texts.slice(0, from).join(":")}::${tail.join(":")}${zone}`;
      return `${(inDecimal ? [...texts.slice(0, 6), decimal] : texts).join(":")}${zone}`;
    });
}

describe("the group of an address", () => {
  it("is the same for every spelling of an IPv6 address, and for its whole /64", () => {
    const world = fc
      .record({ network: words(4), hosts: fc.tuple(words(4), words(4)) })
      .filter(({ network }) => network.some((value) => value !== 0))
      .chain(({ network, hosts: [one, other] }) =>
        fc.tuple(spell([...network, ...one]), spell([...network, ...other])),
      );
    const isSame = ([one, other]: [string, string]) => {
      expect(addressGroup(one)).toBe(addressGroup(other));
    };
    fc.assert(fc.property(world, isSame));
  });

  it("differs between two /64", () => {
    const networks = fc.tuple(words(4), words(4)).filter(([one, other]) => String(one) !== String(other));
    const world = networks.chain(([one, other]) =>
      words(4).chain((host) => fc.tuple(spell([...one, ...host]), spell([...other, ...host]))),
    );
    const examples: [[string, string]][] = [[["2001:db8::1:a:b:c:d", "2001:db8::2:a:b:c:d"]]];
    const differs = ([one, other]: [string, string]) => {
      expect(addressGroup(one)).not.toBe(addressGroup(other));
    };
    fc.assert(fc.property(world, differs), { examples });
  });

  it("is an IPv4 address itself, also when it is written as IPv6", () => {
    const world = words(2).chain(([high = 0, low = 0]) =>
      fc.tuple(
        fc.constant(`${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`),
        spell([0, 0, 0, 0, 0, 0xffff, high, low]),
      ),
    );
    const isBare = ([bare, mapped]: [string, string]) => {
      expect(addressGroup(mapped)).toBe(bare);
    };
    fc.assert(fc.property(world, isBare));
  });

  it.each(["10.0.0.1", "", "a name"])("is %j itself", (text) => expect(addressGroup(text)).toBe(text));
});
