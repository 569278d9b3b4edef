import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CHANGED_FIELDS_MAX, changedFields } from "../../../src/changes/changeJson.ts";

const json = fc.jsonValue({ maxDepth: 4 });

const resolve = (value: unknown, pointer: string): unknown =>
  pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce((inner, key) => Object.getOwnPropertyDescriptor(Object(inner), key)?.value as unknown, value);

describe("changedFields", () => {
  it("lists changed, added and removed fields by path", () => {
    const before = {
      status: "created",
      fleet: { name: "A", old: 1 },
      gone: { deep: 1 },
      same: [1, { x: 1 }],
    };
    const after = { status: "picked_up", fleet: { name: "B" }, added: { deep: 1 }, same: [1, { x: 2 }] };
    expect(changedFields(before, after)).toEqual([
      "/status",
      "/fleet/name",
      "/fleet/old",
      "/added",
      "/same/1/x",
      "/gone",
    ]);
  });

  it.each<[string, unknown, unknown, string]>([
    ["escapes what JSON Pointer escapes", { "a/b": { "c~d": 1 } }, { "a/b": { "c~d": 2 } }, "/a~1b/c~0d"],
    ["distinguishes null from absent", { a: null }, {}, "/a"],
    ["distinguishes a list from an object", { a: [] }, { a: {} }, "/a"],
    ["lists a list whose length changed", { a: [1] }, { a: [1, 2] }, "/a"],
    ["lists an inherited name that a state had", JSON.parse('{"__proto__":{}}'), {}, "/__proto__"],
    ["lists an inherited name that a state has", {}, JSON.parse('{"constructor":{}}'), "/constructor"],
  ])("%s", (_, before, after, pointer) => {
    expect(changedFields(before, after)).toEqual([pointer]);
  });

  it("stops at its limit", () => {
    const many = (value: number) => Array.from({ length: CHANGED_FIELDS_MAX + 1 }, () => value);
    expect(changedFields(many(1), many(2))).toHaveLength(CHANGED_FIELDS_MAX);
    expect(changedFields(many(1).slice(1), many(2).slice(1))).toHaveLength(CHANGED_FIELDS_MAX);
  });

  it("lists nothing for equal values, and otherwise only paths that differ", () => {
    fc.assert(
      fc.property(json, json, (before, after) => {
        expect(changedFields(before, JSON.parse(JSON.stringify(before)))).toEqual([]);
        const pointers = changedFields(before, after);
        expect(new Set(pointers).size).toBe(pointers.length);
        for (const pointer of pointers) {
          expect(JSON.stringify(resolve(before, pointer))).not.toBe(JSON.stringify(resolve(after, pointer)));
        }
      }),
    );
  });
});
