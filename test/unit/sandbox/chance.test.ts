import fc from "fast-check";
import { expect, it } from "vitest";
import { chance, choose, makeCode, makeUuid } from "../../../src/sandbox/world/chance.ts";
import { isUuid } from "../../../src/sandbox/world/directory.ts";

it("depends only on the seed and the names", () => {
  expect(chance(1, "lose", "evt_1")).toBe(chance(1, "lose", "evt_1"));
  expect(chance(1, "lose", "evt_1")).not.toBe(chance(2, "lose", "evt_1"));
  expect(chance(1, "lose", "evt_1")).not.toBe(chance(1, "delay", "evt_1"));
  expect(chance(1, "a", "bc")).not.toBe(chance(1, "ab", "c"));
});

it("hits about the requested share", () => {
  const hits = Array.from({ length: 10_000 }, (_, number) => chance(1, "x", number)).filter(
    (draw) => draw < 0.1,
  );
  expect(hits.length).toBeGreaterThan(900);
  expect(hits.length).toBeLessThan(1_100);
});

it("lies in [0, 1), chooses existing elements, and creates valid codes and UUIDs", () => {
  fc.assert(
    fc.property(fc.nat(), fc.string(), fc.array(fc.nat(), { minLength: 1 }), (seed, name, choices) => {
      const draw = chance(seed, name);
      expect(draw >= 0 && draw < 1).toBe(true);
      expect(choices).toContain(choose(choices, seed, name));
      expect(makeCode(20, seed, name)).toMatch(/^[0-9A-HJKMNP-TV-Z]{20}$/);
      expect(isUuid(makeUuid(seed, name))).toBe(true);
    }),
  );
  expect(() => choose([], 1, "x")).toThrow(TypeError);
});
