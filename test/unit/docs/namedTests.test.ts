import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";

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
