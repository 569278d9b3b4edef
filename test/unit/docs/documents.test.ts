import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { API_ENDPOINTS } from "../../../src/api/endpoints.ts";
import { pageSchema } from "../../../src/api/orderQuery.ts";
import { waitSchema } from "../../../src/api/orderRoutes.ts";
import { CONTRACT_ENDPOINTS } from "../../../src/wire/endpoints.ts";
import { listFilterSchema } from "../../../src/wire/listParameters.ts";
import { DEVIATIONS } from "../../support/contract/deviations.ts";

const ROOT = path.resolve(import.meta.dirname, "../../..");
const read = (file: string) => readFileSync(path.join(ROOT, file), "utf8");
const DOCUMENTS = [
  ".ci/on-node",
  "CONTRIBUTING.md",
  "README.md",
  "package.json",
  "test/support/run/longestFirst.ts",
  ...readdirSync(path.join(ROOT, "docs")).flatMap((name) => (name.endsWith(".md") ? [`docs/${name}`] : [])),
];

it.each(DOCUMENTS)("%s names only tests that exist", (document) => {
  const named = [...read(document).matchAll(/\b(?:unit|integration|e2e|faults)\/[\w/.-]*\w/g)].map(String);
  const exists = (name: string) =>
    ["", ".test.ts"].some((ending) => existsSync(path.join(ROOT, "test", name + ending)));
  expect(named.filter((name) => !exists(name))).toEqual([]);
});

it("each row of docs/security.md about an attack or a secret names a test, by its file or its words", () => {
  const tests = readdirSync(path.join(ROOT, "test"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".test.ts"))
    .map((file) => read(path.join("test", file)))
    .join("\n");
  const sections = ["What a leaked secret allows", "The webhook endpoint", "Readers and people"];
  const proofs = sections.flatMap((section) => {
    const [text = ""] = (read("docs/security.md").split(`## ${section}\n`)[1] ?? "").split("\n## ");
    const rows = text.split("\n").filter((line) => line.startsWith("|"));
    return rows.slice(2).map((row) => row.split("|").at(-2) ?? "");
  });
  expect(proofs.length).toBeGreaterThan(30);
  expect(proofs.filter((proof) => !/\w/.test(proof))).toEqual([]);
  // A name with `%s` differs from the file's text, so its parts are searched.
  const words = proofs.flatMap((proof) => [...proof.matchAll(/"([^"]*)"/g)]);
  const parts = words.flatMap(([, name = ""]) => name.split("…").map((part) => part.trim()));
  expect(parts.filter((part) => !tests.includes(part))).toEqual([]);
});

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

it("docs/assumptions.md lists exactly the differences between the mirror's answers and the provider's", () => {
  const section = read("docs/assumptions.md")
    .split("\n## How the mirror's answers differ from the provider's\n")[1]!
    .split("\n## ")[0]!;
  const rows = section.split("\n").filter((line) => line.startsWith("| "));
  const cells = rows.slice(2).map((row) => row.split("|").map((cell) => cell.trim()));
  expect(cells.map(([, what]) => what)).toEqual(DEVIATIONS.map(({ what }) => what));
  for (const [, what, why] of cells) expect([what, why]).toEqual([what, expect.stringMatching(/\w/)]);
});

it("docs/assumptions.md names every address and every parameter of our own", () => {
  const named = DEVIATIONS.map(({ what }) => what).join(" ");
  const theirPaths = new Set<string>(CONTRACT_ENDPOINTS.map(({ path }) => path));
  const ours = API_ENDPOINTS.map(({ path }) => path).filter((address) => !theirPaths.has(address));
  expect(ours.filter((address) => !named.includes(`\`${address}\``))).toEqual([]);
  const theirs = new Set([...Object.keys(listFilterSchema.shape), "sort", "limit", "offset"]);
  const parameters = [...Object.keys(pageSchema.shape), ...Object.keys(waitSchema.shape)];
  expect(parameters.filter((name) => !theirs.has(name) && !named.includes(`\`${name}\``))).toEqual([]);
});
