import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";

const ROOT = path.resolve(import.meta.dirname, "../..");
const SOURCE = path.join(ROOT, "src");
const GUIDE = readFileSync(path.join(ROOT, "docs/ARCHITECTURE.md"), "utf8");

/** The chains of files under a heading: each item's names, in order. */
function readChains(heading: string): string[][] {
  const [, section = ""] = new RegExp(`^### ${heading}$(.*?)^##`, "ms").exec(GUIDE) ?? [];
  return section
    .split(/^- /m)
    .slice(1)
    .map((item) =>
      [...(item.split("`: ")[0] ?? "").concat("`").matchAll(/`([^`]+\.ts)`/g)].map(([, file = ""]) => file),
    );
}

/** The files of src that a file imports. */
function readImports(file: string): string[] {
  const text = readFileSync(path.join(SOURCE, file), "utf8");
  return [...text.matchAll(/from "(\.[^"]+)"/g)].map(([, target = ""]) =>
    path.join(path.dirname(file), target),
  );
}

describe.each(["The files of a webhook", "The files of a polled page"])("%s", (heading) => {
  const chains = readChains(heading);

  it("are at most thirty, and each is imported by one before it", () => {
    expect(chains.length).toBeGreaterThanOrEqual(3);
    const files = new Set(chains.flat());
    expect(files.size).toBeGreaterThan(15);
    expect(files.size).toBeLessThanOrEqual(30);
    for (const chain of chains) {
      const known = new Set<string>();
      for (const [index, file] of chain.entries()) {
        expect({ file, called: index === 0 || known.has(file) }).toEqual({ file, called: true });
        for (const target of readImports(file)) known.add(target);
      }
    }
  });
});
