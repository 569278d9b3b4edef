import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";

const SOURCE = path.resolve(import.meta.dirname, "../../src");
const ARCHITECTURE = path.resolve(import.meta.dirname, "../../docs/ARCHITECTURE.md");

/**
 * The import table of docs/ARCHITECTURE.md, section "Map": the folders from the bottom up, and what each may import.
 * A folder imports only from layers below its own; `*` allows anything.
 */
const TABLE = readImportTable();

function readImportTable(): Record<string, { folders: string; packages: string; start: string }> {
  const section = readFileSync(ARCHITECTURE, "utf8").split("\n## Map\n")[1]!.split("\n## ")[0]!;
  const rows = section
    .split("\n")
    .filter((line) => line.startsWith("|"))
    .slice(2)
    .map((line) => line.split("|").map((cell) => cell.trim()));
  const allowed = (cell: string) =>
    cell === "anything" ? "*" : cell.replaceAll("\\*", "*").replace("–", "");
  return Object.fromEntries(
    rows.map(([, folder = "", , folders = "", packages = "", start = ""]) => [
      folder,
      { folders: allowed(folders), packages: allowed(packages), start },
    ]),
  );
}

const IMPORT =
  /(?:^|\n)\s*(?:import|export)\s[^;]*?from\s+"([^"]+)"|\bimport\(\s*"([^"]+)"\s*\)|(?:^|\n)import\s+"([^"]+)"/g;

const files = readdirSync(SOURCE, { recursive: true, encoding: "utf8" }).filter((file) =>
  file.endsWith(".ts"),
);

const matches = (allowed: string, name: string) =>
  allowed
    .split(" ")
    .some((entry) => entry === name || (entry.endsWith("*") && name.startsWith(entry.slice(0, -1))));

const folderOf = (file: string) => file.split(path.sep)[0]!;

/** What a file imports: the names of other folders of `src`, and of packages. */
function importsOf(file: string): string[] {
  const text = readFileSync(path.join(SOURCE, file), "utf8");
  return [...text.matchAll(IMPORT)].flatMap((match) => {
    const target = (match[1] ?? match[2] ?? match[3])!;
    if (!target.startsWith(".")) return [target];
    const other = folderOf(path.relative(SOURCE, path.resolve(SOURCE, path.dirname(file), target)));
    return other === folderOf(file) || other === ".." ? [] : [other];
  });
}

function violations(file: string): string[] {
  const folder = folderOf(file);
  const row = TABLE[folder];
  if (!row)
    return [
      `${file}: the folder "${folder}" is not in the import table; put the code into the capability it belongs to`,
    ];
  return importsOf(file)
    .filter((name) => !matches(name in TABLE ? row.folders : row.packages, name))
    .map(
      (name) =>
        `${file}: row "${folder}" may not import ${name in TABLE ? `from ${name}/` : `the package ${name}`}`,
    );
}

it("keeps the imports of every folder within the table", () => {
  expect(files.length).toBeGreaterThan(10);
  expect(files.flatMap(violations)).toEqual([]);
});

it("allows no folder or package that is not imported", () => {
  const used: Record<string, Set<string>> = {};
  for (const file of files)
    for (const name of importsOf(file)) (used[folderOf(file)] ??= new Set()).add(name);
  const idle = Object.entries(TABLE).flatMap(([folder, { folders, packages }]) =>
    `${folders} ${packages}`
      .split(" ")
      .filter((entry) => entry !== "" && entry !== "*")
      .filter((entry) => ![...(used[folder] ?? [])].some((name) => matches(entry, name)))
      .map((entry) => `${folder} does not import ${entry}`),
  );
  expect(idle).toEqual([]);
});

it("names files and folders that exist to start at", () => {
  const starts = Object.entries(TABLE).flatMap(([folder, { start }]) =>
    [...start.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => path.join(folder, name)),
  );
  expect(starts.filter((start) => !existsSync(path.join(SOURCE, start)))).toEqual([]);
  expect(starts.length).toBeGreaterThanOrEqual(Object.keys(TABLE).length);
});

it("imports only from layers below", () => {
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
  // The start of a statement in a string or template. Code that creates a database or its schema is exempt: it has no tables yet.
  const statement = /["`]\s*(?:with \w+ as|select\s|insert into\s|delete from\s|update \w+\.\w+)/;
  const setUp = /^(?:database\/|mirror\/openDatabase\.ts)/;
  const others = files.filter((file) => !file.endsWith(".sql.ts") && !setUp.test(file));
  expect(others.filter((file) => statement.test(readFileSync(path.join(SOURCE, file), "utf8")))).toEqual([]);
});

it("makes no HTML, routes or sockets in files of SQL", () => {
  const makers = /from "(?:express|node:https?|node:net|[^"]*\/(?:html|page)\.ts|[^"]*html\/[^"]*)"/;
  const statements = files.filter((file) => file.endsWith(".sql.ts"));
  expect(statements.filter((file) => makers.test(readFileSync(path.join(SOURCE, file), "utf8")))).toEqual([]);
});

it("has at most 15 source files in a folder", () => {
  const counts = new Map<string, number>();
  for (const file of files) counts.set(path.dirname(file), (counts.get(path.dirname(file)) ?? 0) + 1);
  expect([...counts].filter(([, count]) => count > 15)).toEqual([]);
});

it("has no barrels", () => {
  expect(files.filter((file) => path.basename(file) === "index.ts")).toEqual([]);
});

it("reads the process's environment in config only", () => {
  const readers = files.filter((file) =>
    /\bprocess\.env\b/.test(readFileSync(path.join(SOURCE, file), "utf8")),
  );
  expect(readers.filter((file) => !file.startsWith(`config${path.sep}`))).toEqual([]);
});

/**
 * Readable log lines are for few, and `import` searches all files of a CommonJS package for the names
 * that they export: of BullMQ and its Redis client that takes longer than to load them.
 */
it("imports no package that starts faster without", () => {
  const slow = /^import (?!type\b)[^;]*from "(?:bullmq|ioredis|pino-pretty)"/m;
  expect(files.filter((file) => slow.test(readFileSync(path.join(SOURCE, file), "utf8")))).toEqual([]);
});
