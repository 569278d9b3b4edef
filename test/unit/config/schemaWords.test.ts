import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { loadConfig } from "../../../src/config/environment.ts";

/** Words of the schema library, which mean nothing to the author of a configuration. */
const ITS_WORDS = /Invalid|expected|received|undefined|Unrecognized|Too (?:small|big)/;

function problemsOf(env: Record<string, string>): string {
  try {
    loadConfig(
      { DELIVERY_BASE_URL: "http://127.0.0.1:1", DELIVERY_LIVE_API_KEY: "dos_live_x", ...env },
      null,
    );
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}

it.each([
  ["{}", /header: is missing/],
  ['{"header": 1}', /header: must be text/],
  ['{"header": "x-signature", "signed": "{body}", "algorithm": "md5"}', /algorithm: must be "/],
  ['{"header": "x-signature", "signed": "{body}", "colour": "red"}', /has unknown fields: "colour"/],
])("a webhook scheme %s", (scheme, sentence) => {
  const problems = problemsOf({
    WEBHOOK_SCHEME: scheme,
    DELIVERY_LIVE_WEBHOOK_SECRETS: "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3",
  });
  expect(problems).toMatch(sentence);
  expect(problems).not.toMatch(ITS_WORDS);
});

it.each([
  [{}, /SOURCES_FILE must be a list/],
  [[{}], /source number 1, \w+ is missing/],
  [[{ sourceId: 1 }], /must be text/],
])("a file of sources %j", (content, sentence) => {
  const folder = mkdtempSync(path.join(tmpdir(), "order-mirror-words-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, "sources.json");
  writeFileSync(file, JSON.stringify(content));
  const problems = problemsOf({ SOURCES_FILE: file });
  expect(problems).toMatch(sentence);
  expect(problems).not.toMatch(ITS_WORDS);
});

it("an address of Postgres with sslmode becomes one that causes no warning", () => {
  const addressOf = (databaseUrl: string) => loadConfig({ DATABASE_URL: databaseUrl }, null).databaseUrl;
  expect(addressOf("postgres://me:p%40ss@db.example/mirror?sslmode=require&connect_timeout=3")).toBe(
    "postgres://me:p%40ss@db.example/mirror?sslmode=verify-full&connect_timeout=3",
  );
  const untouched = [
    "postgres://me@db.example/mirror",
    "postgres://me@db.example/mirror?sslmode=disable",
    "postgres://me@db.example/mirror?sslmode=require&uselibpqcompat=true",
  ];
  for (const address of untouched) expect(addressOf(address)).toBe(address);
  expect(problemsOf({ DATABASE_URL: "postgres:pw@host/db" })).toMatch(/lacks the two slashes/);
  expect(problemsOf({ DATABASE_URL: "postgres://me:p#ss@db.example/mirror" })).toMatch(
    /in a password, write @ as %40/,
  );
});
