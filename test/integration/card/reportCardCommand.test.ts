import { afterAll, beforeAll, expect, it } from "vitest";
import { runCommand } from "../../support/programs/command.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await makeTestDatabase();
  await addSource(database.pool, "live");
  await addSource(database.pool, "test", "test");
});
afterAll(() => database.drop());

const run = (...args: string[]) => runCommand(["report-card", ...args], { databaseUrl: database.url });

it("prints the card of a source and month", async () => {
  const month = ["--month", "2026-01", "--source", "live"];
  const markdown = await run(...month);
  expect(markdown).toMatchObject({ code: 0 });
  expect(markdown.stdout).toMatch(/^# Report card of http:\/\/127\.0\.0\.1, 2026-01\n/);
  expect(markdown.stdout).toContain("not enough data");
  const json = JSON.parse((await run(...month, "--format", "json")).stdout) as { figures: object };
  expect(json).toMatchObject({ source: "live", month: "2026-01", figures: { events_lost: 0 } });
  const csv = (await run(...month, "--format", "csv")).stdout.trimEnd().split(/\r?\n/);
  expect(csv).toHaveLength(1 + Object.keys(json.figures).length);
});

it.each([
  [["--month", "2026-13", "--source", "live"], "--month is not a month."],
  [["--month", "2026-01"], "there are several"],
  [["--month", "2026-01", "--source", "shop"], "There is no source shop."],
])("refuses %j", async (args, message) => {
  const refused = await run(...args);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain(message);
});
