import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";

const ROOT = path.resolve(import.meta.dirname, "../../..");
const read = (file: string) => readFileSync(path.join(ROOT, file), "utf8");
const page = read("docs/security.md");

/** Short names that the page explains. */
const SHORT: Readonly<Record<string, string>> = {
  receive: "integration/receive/receive",
  hostile: "integration/receive/hostileRequests",
  verifier: "unit/signature/verifier",
  scheme: "unit/signature/scheme",
};
const SECTIONS = ["What a leaked secret allows", "The webhook endpoint", "Readers and people"];

function rowsOf(section: string): string[] {
  const [, text = ""] = page.split(`## ${section}\n`);
  const lines = (text.split("\n## ")[0] ?? "").split("\n").filter((line) => line.startsWith("|"));
  return lines.slice(2);
}

const lastCell = (row: string) => row.split("|").at(-2)?.trim() ?? "";

/** The test files that a cell names, by the end of their path; a bare name takes the folder of the one before it. */
function filesOf(cell: string): string[] {
  const files: string[] = [];
  let folder = "";
  const bare = cell.replaceAll(/"[^"]*"/g, "").replaceAll("`", "");
  for (const word of bare.split(/[\s,;:]+/).filter((each) => /^[A-Za-z0-9/._-]+$/.test(each))) {
    const name = (SHORT[word] ?? word).replace(/\.test\.ts$/, "");
    if (name.includes("/")) folder = path.dirname(name);
    const file = name.includes("/") ? name : `${folder}/${name}`;
    if (existsSync(path.join(ROOT, "test", `${file}.test.ts`))) files.push(`test/${file}.test.ts`);
    else if (existsSync(path.join(ROOT, "test", name)) && name.includes("/")) {
      const tests = readdirSync(path.join(ROOT, "test", name)).filter((each) => each.endsWith(".test.ts"));
      files.push(...tests.map((each) => `test/${name}/${each}`));
    } else if (name.includes("/")) files.push(`MISSING ${word}`);
  }
  return files;
}

function problemsOf(row: string): string[] {
  const cell = lastCell(row);
  const files = filesOf(cell);
  const missing = files.filter((file) => file.startsWith("MISSING"));
  const texts = files
    .filter((file) => !missing.includes(file))
    .map(read)
    .join("\n");
  // A name with `%s` differs from the file's text, so its parts are searched.
  const unknown = [...cell.matchAll(/"([^"]*)"/g)]
    .map(([, quoted = ""]) => quoted)
    .filter((quoted) => !quoted.split("…").every((part) => texts.includes(part.trim())));
  if (files.length === 0) return [`no test: ${row}`];
  return [...missing, ...unknown.map((quoted) => `no test "${quoted}"`)].map((each) => `${each}: ${row}`);
}

describe.each(SECTIONS)("every row of %s", (section) => {
  it("names an existing test file and tests in it", () => {
    const rows = rowsOf(section);
    expect(rows.length).toBeGreaterThan(8);
    expect(rows.flatMap(problemsOf)).toEqual([]);
  });
});

it("has a policy for reports and supported versions", () => {
  expect(read("SECURITY.md")).toMatch(/## Report a vulnerability[\s\S]*## What is supported/);
});
