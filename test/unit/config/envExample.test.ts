import { readFileSync } from "node:fs";
import path from "node:path";
import { parseEnv } from "node:util";
import { expect, it } from "vitest";
import { loadConfig } from "../../../src/config/environment.ts";
import { describeDefault, SETTINGS, type SettingName } from "../../../src/config/settings.ts";

const ROOT = path.resolve(import.meta.dirname, "../../..");
const FILE = path.join(ROOT, ".env.example");
const WIDTH = 120;
/** A section of the table, or a setting with its comment. */
const ENTRY = /^ {2}(?:\/\/ (--- .* ---)$|\/\*\*([^]*?)\*\/\s+(\w+): )/gm;

/** The words as comments of `.env`, wrapped. */
function comment(words: readonly string[]): string {
  let line = "#";
  const lines = [];
  for (const word of words) {
    if (line.length + word.length >= WIDTH) {
      lines.push(line);
      line = "#";
    }
    line += ` ${word}`;
  }
  return [...lines, line].join("\n");
}

it("is made from the table of settings, with each one's section, meaning and default", async () => {
  const table = readFileSync(path.join(ROOT, "src/config/settings.ts"), "utf8");
  const named: string[] = [];
  const entries = [...table.slice(table.indexOf("export const SETTINGS")).matchAll(ENTRY)].map(
    ([, section, meaning = "", name = ""]) => {
      if (section !== undefined) return `# ${section}`;
      named.push(name);
      const { variable } = SETTINGS[name as SettingName];
      const words = meaning.split(/[\s*]+/).filter((word) => word !== "");
      return `${comment(words)}\n${variable}=${describeDefault(name as SettingName)}`;
    },
  );
  expect(named).toEqual(Object.keys(SETTINGS));
  const [head] = readFileSync(FILE, "utf8").split("\n\n");
  await expect([head, ...entries].join("\n\n") + "\n").toMatchFileSnapshot(FILE);
});

it("changes nothing when it is copied unchanged", () => {
  const load = (env: NodeJS.Dict<string>) => loadConfig(env, null);
  expect(load(parseEnv(readFileSync(FILE, "utf8")))).toEqual(load({}));
});
