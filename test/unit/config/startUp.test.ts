import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";

/**
 * Readable log lines are for few, and `import` searches all files of a CommonJS package for the names
 * that they export: of BullMQ and its Redis client that takes longer than to load them.
 */
it("no module imports a package that starts faster without", () => {
  const source = path.resolve(import.meta.dirname, "../../../src");
  const slow = /^import (?!type\b)[^;]*from "(?:bullmq|ioredis|pino-pretty)"/m;
  const importers = readdirSync(source, { recursive: true, encoding: "utf8" }).filter(
    (file) => file.endsWith(".ts") && slow.test(readFileSync(path.join(source, file), "utf8")),
  );
  expect(importers).toEqual([]);
});
