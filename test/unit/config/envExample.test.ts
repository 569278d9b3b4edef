import { readFileSync } from "node:fs";
import path from "node:path";
import { parseEnv } from "node:util";
import { expect, it } from "vitest";
import { loadConfig } from "../../../src/config/config.ts";
import { VARIABLES, type Variable } from "../../../src/config/variables.ts";

const FILE = path.resolve(import.meta.dirname, "../../../.env.example");
const text = readFileSync(FILE, "utf8");

it("names exactly the variables that the product reads, in the same sequence", () => {
  expect(text.match(/^[A-Z_]+(?==)/gm)).toEqual(Object.keys(VARIABLES));
});

it("gives each its default and, on the line before, a meaning", () => {
  const lines = text.split("\n");
  for (const [name, variable] of Object.entries<Variable>(VARIABLES)) {
    const at = lines.indexOf(`${name}=${variable.default ?? ""}`);
    expect({ name, meaning: lines[at - 1] }).toEqual({
      name,
      meaning: expect.stringMatching(/^# \S/) as string,
    });
  }
});

it("changes nothing when it is copied unchanged", () => {
  const load = (env: NodeJS.Dict<string>) => loadConfig(env, null);
  expect(load(parseEnv(text))).toEqual(load({}));
});
