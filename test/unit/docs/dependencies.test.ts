import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";

const ROOT = path.resolve(import.meta.dirname, "../../..");
const read = (file: string) => readFileSync(path.join(ROOT, file), "utf8");

it("docs/ARCHITECTURE.md names exactly the packages that the product needs", () => {
  const manifest = JSON.parse(read("package.json")) as Record<string, Record<string, string>>;
  const packages = Object.keys({ ...manifest["dependencies"], ...manifest["optionalDependencies"] });
  const [, section = ""] = read("docs/ARCHITECTURE.md").split("\n## Dependencies\n");
  const rows = section.trim().split("\n\n")[0]!.split("\n").slice(2);
  const named = rows.flatMap((row) =>
    row
      .split("|")[1]!
      .split(",")
      .map((cell) => cell.trim().split(" ")[0]!),
  );
  const isNamed = (name: string) =>
    named.some((each) => (each.endsWith("/*") ? name.startsWith(each.slice(0, -1)) : each === name));
  expect(packages.filter((name) => !isNamed(name))).toEqual([]);
  const isUsed = (each: string) =>
    packages.some((name) => (each.endsWith("/*") ? name.startsWith(each.slice(0, -1)) : name === each));
  expect(named.filter((each) => !isUsed(each))).toEqual([]);
});
