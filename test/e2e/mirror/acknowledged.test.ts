import { afterAll, afterEach, expect, it } from "vitest";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { makeEventLoad } from "../../support/faults/events.ts";
import { makeMirrorAudit } from "../../support/faults/mirrorAudit.ts";
import { startRole, stopPrograms } from "../../support/programs/program.ts";
import { openTestDatabase } from "../../support/servers/database.ts";

const KILLS = 4;

const { database } = await openTestDatabase();
const audit = makeMirrorAudit(database.url);
afterAll(() => audit.close());
afterEach(stopPrograms);

it(`every event answered 200 is in the mirror after the receiver was killed ${KILLS} times under load`, async () => {
  const port = await findFreePort();
  const env = { DATABASE_URL: database.url, HOST: "127.0.0.1", PORT: String(port) };
  await startRole("worker", env);
  let web = await startRole("web", env);
  const load = makeEventLoad(`http://127.0.0.1:${port}/webhooks/live`);
  load.start();
  for (let kill = 0; kill < KILLS; kill += 1) {
    // Killed in the middle of traffic, after a number of answers that differs from round to round.
    await load.more(10 + kill * 7);
    await web.stop("SIGKILL");
    web = await startRole("web", env);
  }
  await load.stop();
  // The overdue check finds events stored just before a kill, without answer and job.
  await audit.expectDecided(load.acknowledged);
  // Each is of an order of its own.
  const { rows } = await database.pool.query(
    "select (select count(*) from mirror.orders) as orders, (select count(*) from mirror.inbox) as events",
  );
  expect(rows[0]?.orders).toBe(rows[0]?.events);
  // Unless an answer was cut off, the kills prove nothing.
  expect(load.answers["unknown"]).toBeGreaterThan(0);
});
