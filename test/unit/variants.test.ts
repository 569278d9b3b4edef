import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { editsOf, testOf, VARIANTS } from "../variants/variants.ts";

const ROOT = path.resolve(import.meta.dirname, "../..");

/** How often a text occurs in a file of src; null when there is no such file. */
function count(file: string, text: string): number | null {
  const target = path.join(ROOT, "src", file);
  return existsSync(target) ? readFileSync(target, "utf8").split(text).length - 1 : null;
}

/** Whether a file, or what it imports from beside it, names a test, or a group and a test; a table may fill in parts. */
function hasTest(file: string, name: string): boolean {
  const own = readFileSync(file, "utf8");
  const beside = [...own.matchAll(/from "(\.\/[^"]+)"/g)].map(([, other = ""]) =>
    readFileSync(path.resolve(path.dirname(file), other), "utf8"),
  );
  const text = [own, ...beside].join("\n");
  const words = name.split(" ");
  const isNamed = words.some((_, at) =>
    [words.slice(0, at), words.slice(at)].every((part) => text.includes(part.join(" "))),
  );
  const filledIn = [...text.matchAll(/["`]([^"`\n]*(?:%\w|\$[\w.]+)[^"`\n]*)["`]/g)]
    .map(([, title = ""]) => title.split(/%\w|\$[\w.]+/).map((part) => part.trim()))
    .filter((parts) => parts.join("").length > 10);
  return isNamed || filledIn.some((parts) => parts.every((part) => name.includes(part)));
}

it.each(VARIANTS)(
  "flaw: $flaw: changes texts that occur once in the sources, for a test that exists",
  (variant) => {
    for (const { in: file, find } of editsOf(variant))
      expect({ file, find, times: count(file, find) }).toEqual({ file, find, times: 1 });
    const { file, test } = testOf(variant);
    expect(hasTest(path.join(ROOT, file), test), `${file}: ${test}`).toBe(true);
  },
);
