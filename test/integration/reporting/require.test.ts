import { afterAll, beforeEach, expect, it } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { prove as proveSource } from "../../support/mirror/tables.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { makeReader, readAs } from "../../support/mirror/reporting.ts";

const { database } = await openTestDatabase();
await addSource(database.pool, "live");
const reader = await makeReader(database.pool, "live");
afterAll(() => reader.drop());
beforeEach(() => database.pool.query("delete from mirror.poll_state; delete from mirror.quarantine"));

const prove = (safeThrough: string) =>
  proveSource(database.pool, safeThrough, { history_since: parseInstant("2026-11-01T00:00:00Z") });

/** As a reader, who may see nothing but the schema reporting. */
async function run(call: string, zone = "UTC"): Promise<unknown> {
  const as = { role: reader.role, settings: `set transaction read only; set local time zone '${zone}'` };
  const [row] = await readAs(database.pool, as, `select safe::text from ${call} as safe`);
  return row?.["safe"];
}

const NOT_COMPLETE = "OM412";

it("returns safe_through once the whole day is proved, and else raises an error that says what is missing", async () => {
  await prove("2026-11-22T00:00:00Z");
  expect(await run("reporting.require('live', '2026-11-21')")).toBe("2026-11-22 00:00:00+00");
  await prove("2026-11-21T23:59:59.999999999Z");
  await expect(run("reporting.require('live', '2026-11-21')")).rejects.toMatchObject({
    code: NOT_COMPLETE,
    message: expect.stringContaining(
      "live is not complete for 2026-11-21: live is complete up to 2026-11-21T23:59:59.999999Z. Not proved after that: ",
    ) as string,
    hint: expect.stringContaining("safe_through") as string,
  });
});

it("refuses days before the history, unknown sources, and missing values", async () => {
  await prove("2026-11-22T00:00:00Z");
  await expect(run("reporting.require('live', '2026-10-31')")).rejects.toMatchObject({
    code: NOT_COMPLETE,
    message: expect.stringContaining("The history of live begins at 2026-11-01") as string,
  });
  await expect(run("reporting.require('shop', '2026-11-21')")).rejects.toMatchObject({ code: NOT_COMPLETE });
  for (const call of ["null, '2026-11-21'", "'live', null", "'live', '2026-11-21', null"])
    await expect(run(`reporting.require(${call})`)).rejects.toMatchObject({ code: "22004" });
  for (const day of ["infinity", "-infinity", "0001-01-01", "5874897-12-31"]) {
    await expect(run(`reporting.require('live', '${day}')`)).rejects.toMatchObject({
      message: `reporting.require needs a day of the years 1700 to 2261, not ${day}`,
      code: "22008",
    });
  }
});

it("takes the day in the session's time zone", async () => {
  await prove("2026-11-21T23:00:00Z");
  expect(await run("reporting.require('live', '2026-11-21')", "Europe/Amsterdam")).toBe(
    "2026-11-22 00:00:00+01",
  );
  await expect(run("reporting.require('live', '2026-11-21')", "UTC")).rejects.toMatchObject({
    code: NOT_COMPLETE,
  });
});

it("refuses orders that could not be read, unless the job may do without them", async () => {
  await prove("2026-11-22T00:00:00Z");
  await database.pool.query(
    "insert into mirror.quarantine (source_id, via, reference, reason, raw) values ('live', 'poll', 'B', 'unreadable_order', 'x')",
  );
  await expect(run("reporting.require('live', '2026-11-21')")).rejects.toMatchObject({
    code: NOT_COMPLETE,
    message: expect.stringContaining("one order could not be read or confirmed") as string,
    hint: expect.stringContaining("allow_exceptions => true") as string,
  });
  expect(await run("reporting.require('live', '2026-11-21', allow_exceptions => true)")).toBe(
    "2026-11-22 00:00:00+00",
  );
});
