import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { editsOf, testFileOf, VARIANTS } from "../variants/variants.ts";

const ROOT = path.resolve(import.meta.dirname, "../..");

/** How often a text occurs in a file of src; null when there is no such file. */
function count(file: string, text: string): number | null {
  const target = path.join(ROOT, "src", file);
  return existsSync(target) ? readFileSync(target, "utf8").split(text).length - 1 : null;
}

it.each(VARIANTS)("each flawed variant: $flaw: changes texts that occur once in the sources", (variant) => {
  for (const { in: file, find } of editsOf(variant))
    expect({ file, find, times: count(file, find) }).toEqual({ file, find, times: 1 });
  expect(existsSync(path.join(ROOT, testFileOf(variant)))).toBe(true);
});
