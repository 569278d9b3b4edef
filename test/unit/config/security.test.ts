import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";

const ROOT = path.resolve(import.meta.dirname, "../../..");
const guide = readFileSync(path.join(ROOT, "docs/security.md"), "utf8");
const named = [...guide.matchAll(/\b(?:integration|e2e|unit)\/[\w/]+/g)].map(([name]) => name);

describe("the security guide", () => {
  it("names tests for its defences", () => {
    expect(new Set(named).size).toBeGreaterThan(20);
  });

  it.each([...new Set(named)])("names an existing test or folder of tests: %s", (name) => {
    const place = path.join(ROOT, "test", name);
    expect(existsSync(`${place}.test.ts`) || existsSync(place)).toBe(true);
  });

  it.each([...guide.matchAll(/`((?:src|config|test|\.ci)\/[\w./-]+)`/g)].map(([, name]) => name ?? ""))(
    "names a file that there is: %s",
    (name) => {
      expect(existsSync(path.join(ROOT, name))).toBe(true);
    },
  );
});
