import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { openTestDatabase } from "../../support/servers/database.ts";
import { addSource, insertMany, insertOrder, orderText } from "../../support/mirror/orders.ts";
import { prove } from "../../support/mirror/tables.ts";
import { runCommand } from "../../support/programs/command.ts";
import { runProgram, startProgram, stopPrograms } from "../../support/programs/program.ts";

const { database } = await openTestDatabase();

const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-export-"));
await addSource(database.pool, "live");
for (const [hour, fields] of [
  [10, { reference: "DO-1", externalOrderId: "=cmd|'/c calc'!A0" }],
  [11, { reference: "DO-2", externalOrderId: "00123", status: "cancelled" }],
  [12, { reference: "DO-3", externalOrderId: "shop-3", status: "cancelled" }],
] as const) {
  const text = orderText({ ...fields, updatedAt: `2026-11-20T${hour}:00:00Z` });
  await insertOrder(database.pool, "live", text);
}
afterEach(stopPrograms);
afterAll(() => rm(folder, { recursive: true }));

const run = (...args: string[]) => runCommand(["export", ...args], { databaseUrl: database.url });
const rowsOf = (text: string) => text.split(/\r?\n/).slice(0, -1);

describe("order-mirror export", () => {
  it("writes CSV sorted by updatedAt to stdout, and the number of orders to stderr", async () => {
    const { code, stdout, stderr } = await runProgram(["export"], { DATABASE_URL: database.url });
    expect(code).toBe(0);
    const [head, ...rows] = rowsOf(stdout);
    expect(head).toMatch(/^source_id,reference,external_order_id,status,/);
    expect(rows.map((row) => row.split(",")[1])).toEqual(["DO-1", "DO-2", "DO-3"]);
    expect(rows[0]).toContain("live,DO-1,'=cmd|'/c calc'!A0,");
    expect(stderr).toMatch(/^3 orders written in .*; not verified yet\.$/m);
    await prove(database.pool, "2026-11-20T12:30:00Z");
    expect((await run()).stderr).toMatch(/; complete up to 2026-11-20T12:30:00Z\.$/m);
  });

  it("creates the file of the orders of a period only when it is complete, and reports it as JSON", async () => {
    const file = path.join(folder, "orders.ndjson");
    const filters = ["--since", "2026-11-20T11:00:00Z", "--until", "2026-11-20T12:00:00Z"];
    const { code, stdout } = await run("--format", "ndjson", "--output", file, "--json", ...filters);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ orders: 1, file, format: "ndjson" });
    const rows = rowsOf(await readFile(file, "utf8")).map((row) => JSON.parse(row) as { reference: string });
    expect(rows.map(({ reference }) => reference)).toEqual(["DO-2"]);
    expect(await readdir(folder)).toEqual(["orders.ndjson"]);
  });

  it.each([
    [["--source", "other"], "There is no source other"],
    [["--json"], "--json prints a summary, but stdout is used for the orders."],
  ])("refuses %j with exit code 2, in the words of the command line, and as JSON", async (args, message) => {
    const output = args.includes("--json") ? [] : ["--json", "--output", path.join(folder, "none")];
    const { code, stdout, stderr } = await run(...args, ...output);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^order-mirror: .*\n {2}fix: /m);
    expect(stderr).toContain(message);
    expect(JSON.parse(stdout)).toEqual({
      error: {
        message: expect.stringContaining(message) as string,
        fix: expect.any(String) as string,
        exitCode: 2,
      },
    });
  });

  it("reports that a file cannot be written, and leaves none", async () => {
    const { code, stderr } = await run("--output", path.join(folder, "missing", "orders.csv"));
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /orders\.csv cannot be written \(ENOENT\)\.\n {2}fix: Give --output a file in a folder/,
    );
  });
});

const FULL = "/dev/full";
const canBeFull = existsSync(FULL);
if (!canBeFull) process.stderr.write("NOT RUN: exports to a full disk. This system has no /dev/full.\n");

describe.runIf(canBeFull)("order-mirror export to a full disk", () => {
  it.each(["csv", "ndjson"])("says so and leaves nothing of %s", async (format) => {
    const file = path.join(folder, `full.${format}`);
    // Each write to the draft fails, as on a full disk.
    await symlink(FULL, `${file}.part`);
    const { code, stdout, stderr } = await run("--format", format, "--output", file, "--json");
    const message = "The disk that this command writes to is full.";
    const fix = "Free space there or name a file on another disk, then run it again.";
    expect([code, JSON.parse(stdout)]).toEqual([75, { error: { message, fix, exitCode: 75 } }]);
    expect(stderr).toContain(`order-mirror: ${message}\n  fix: ${fix}\n`);
    expect((await readdir(folder)).filter((name) => name.startsWith("full."))).toEqual([]);
  });

  it("says so when the output is a file of the shell", async () => {
    const program = startProgram(["export"], { DATABASE_URL: database.url }, { stdoutTo: FULL });
    const { code, stderr } = await program.ended;
    expect([code, stderr]).toEqual([
      75,
      "order-mirror: The disk that this command writes to is full.\n  fix: Free space there or name a file on another disk, then run it again.\n",
    ]);
  });
});

describe("order-mirror export of many orders", () => {
  // 100 MB, in rows that Postgres does not compress.
  beforeAll(() => insertMany(database.pool, 60_000, 1_700));

  it("ends quietly when its reader closes the pipe", async () => {
    const program = startProgram(["export", "--format", "ndjson"], { DATABASE_URL: database.url });
    program.child.stdout?.once("data", () => program.child.stdout?.destroy());
    const { code, stderr } = await program.ended;
    // On a busy machine it takes long enough to show progress.
    const complaints = stderr.split("\n").filter((line) => line !== "" && !/^ *\d+ %  \d+ orders/.test(line));
    expect([code, complaints]).toEqual([141, []]);
  });

  it("leaves no partial file when it is interrupted, and ends by the signal", async () => {
    const file = path.join(folder, "interrupted.csv");
    const program = startProgram(["export", "--output", file], { DATABASE_URL: database.url });
    await expect.poll(() => readdir(folder), { timeout: 60_000 }).toContain("interrupted.csv.part");
    const { signal } = await program.stop("SIGINT");
    expect(signal).toBe("SIGINT");
    expect((await readdir(folder)).filter((name) => name.startsWith("interrupted"))).toEqual([]);
  });

  it("uses constant memory: less than 60 MB of heap", async () => {
    const file = path.join(folder, "many.ndjson");
    const { code, stderr } = await runProgram(["export", "--format", "ndjson", "--output", file], {
      DATABASE_URL: database.url,
      NODE_OPTIONS: "--max-old-space-size=60",
    });
    expect([code, stderr]).toEqual([0, expect.stringMatching(/^60003 orders written to /m)]);
  });
});
