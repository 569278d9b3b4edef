import { expect, it } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { BOUND_GRANULE, halve, provableUntil } from "../../../src/domain/window/window.ts";

const at = (time: string) => parseInstant(`2026-03-01T${time}Z`);
const window = (since: string, until: string) => ({ since: at(since), until: at(until) });

it("the end of what can be proved is the provider's time less the margin and a second for its clock, truncated to a whole second", () => {
  expect(provableUntil(at("09:05:07.9"), 300)).toBe(at("09:00:06"));
  expect(provableUntil(at("09:05:08"), 300)).toBe(at("09:00:07"));
});

it("halves until halves would not be shorter, with an overlap", () => {
  expect(halve(window("09:00:00", "09:00:02"), BOUND_GRANULE)).toBeUndefined();
  expect(halve(window("09:00:00", "09:00:03"), BOUND_GRANULE)).toEqual([
    window("09:00:00", "09:00:02"),
    window("09:00:01", "09:00:03"),
  ]);
});
