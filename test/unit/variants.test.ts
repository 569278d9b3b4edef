import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { plant, testOf, VARIANTS } from "../variants/variants.ts";

const ROOT = path.resolve(import.meta.dirname, "../..");
const read = (...names: string[]) => readFileSync(path.join(ROOT, ...names), "utf8");

/** Whether a file, or what it imports from beside it, names a test, or a group and a test; a table may fill in parts. */
function hasTest(file: string, name: string): boolean {
  const own = read(file);
  const beside = [...own.matchAll(/from "(\.\/[^"]+)"/g)].map(([, other = ""]) =>
    read(path.dirname(file), other),
  );
  const text = [own, ...beside].join("\n").replaceAll(/['`]/g, '"');
  const words = name.replaceAll("'", '"').split(" ");
  const isNamed = words.some((_, at) => {
    const [group, test] = [words.slice(0, at).join(" "), words.slice(at).join(" ")];
    return at === 0 ? text.includes(test) : text.includes(`${group}"`) && text.includes(`"${test}`);
  });
  const filledIn = [...text.matchAll(/"([^"\n]*(?:%\w|\$[\w.]+)[^"\n]*)"/g)]
    .map(([, title = ""]) => title.split(/%\w|\$[\w.]+/).map((part) => part.trim()))
    .filter((parts) => parts.join("").length > 10);
  return isNamed || filledIn.some((parts) => parts.every((part) => name.includes(part)));
}

it.each(VARIANTS)(
  "flaw: $flaw: changes texts that occur once in the sources, for a test that exists",
  (variant) => {
    expect(() => plant(variant, (file) => read("src", file))).not.toThrow();
    const { file, test } = testOf(variant);
    expect(hasTest(file, test), `${file}: ${test}`).toBe(true);
  },
);
