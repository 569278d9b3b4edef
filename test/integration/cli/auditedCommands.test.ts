import { hostname, userInfo } from "node:os";
import { afterEach, expect, it } from "vitest";
import { runCommand } from "../../support/programs/command.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { insertOrder, orderText, addSource, putIntoInbox } from "../../support/mirror/orders.ts";
import { emptying } from "../../support/mirror/tables.ts";

const { database } = await openTestDatabase();
await addSource(database.pool, "live");
await insertOrder(
  database.pool,
  "live",
  orderText({ reference: "R1", status: "\u001b]0;owned\u0007created" }),
);
const seqs = await putIntoInbox(database.pool, [{ eventId: "evt_1", body: Buffer.from("no JSON") }]);
await database.pool.query(
  "insert into mirror.quarantine (source_id, inbox_seq, via, reason) values ('live', $1, 'webhook', 'not_json')",
  [seqs[0]],
);
afterEach(() => database.pool.query(emptying("ops_actions")));

const run = (args: string[], env: Record<string, string> = {}) =>
  runCommand(args, { databaseUrl: database.url, env });
const readActions = async () =>
  (
    await database.pool.query(
      "select role, person, action, source_id as source, target, affected::int from mirror.ops_actions order by action_id",
    )
  ).rows;

const account = userInfo().username;
const by = { role: "command", person: `${account}@${hostname()}`, source: "live" };

it.each<[string[], object]>([
  [["refetch", "R1"], { action: "refetch", target: "R1", affected: 1 }],
  [["source", "pause", "live"], { action: "pause", target: "source live", affected: 1 }],
  [["source", "resume", "live"], { action: "resume", target: "source live", affected: 1 }],
  [["export", "--since", "P1D"], { action: "export", target: "csv, since", affected: 0 }],
  [
    ["replay", "--yes"],
    {
      action: "retry",
      source: null,
      target: expect.stringMatching(/^quarantine all reasons, through \d+$/),
      affected: 1,
    },
  ],
  [["erase", "R1", "--yes"], { action: "erase", target: "R1", affected: 1 }],
])("%j is in the audit log, by account and machine", async (args, action) => {
  const { code, stderr } = await run(args);
  expect([code, stderr]).toEqual([0, expect.anything()]);
  expect(await readActions()).toEqual([{ ...by, ...action }]);
});

it("pausing and resuming a source says what it is now, and whether that is new", async () => {
  const say = async (action: string) => (await run(["source", action, "live"])).stdout;
  expect([await say("pause"), await say("pause")]).toEqual([
    "Polling of source live is now paused.\n",
    "Polling of source live is already paused.\n",
  ]);
  expect((await run(["status"])).stdout).toMatch(/polling +paused/);
  expect([await say("resume"), await say("resume")]).toEqual([
    "Polling of source live is no longer paused.\n",
    "Polling of source live is not paused.\n",
  ]);
  expect(await run(["source", "pause", "nobody"])).toMatchObject({ code: 2 });
});

it("a command run through sudo names both accounts, if they are two", async () => {
  for (const SUDO_USER of ["ada", account]) await run(["refetch", "R1"], { SUDO_USER });
  const people = (await readActions()).map(({ person }: { person: string }) => person);
  expect(people).toEqual([`ada as ${account}@${hostname()}`, by.person]);
});

it("an order whose single read found nothing says so until the provider is asked again", async () => {
  await run(["refetch", "R1"]);
  expect((await run(["order", "R1"])).stderr).toMatch(/the poller does it in its next cycle\./);
  await run(["source", "pause", "live"]);
  expect((await run(["refetch", "R1"])).stdout).toMatch(/will be read again once its polling is resumed\./);
  expect((await run(["order", "R1"])).stderr).toMatch(/the poller does it once polling is resumed\./);
  await run(["source", "resume", "live"]);
  await database.pool.query(`update mirror.refetches set attempts = 1, missed_at = 1,
    next_attempt_at = clock_timestamp() + interval '90 min'`);
  const { stderr } = await run(["order", "R1"]);
  expect(stderr).toMatch(/tried once so far, and the provider answered that there is no such order/);
  expect(stderr).toContain('"Complete up to" excludes this order, because a single read did not find it.');
  expect(stderr).toMatch(/the poller does it not before 1 h \d+ min have passed\./);
});

it("a command does not say that messages are sent now to an endpoint that is paused, or that nobody lists", async () => {
  await database.pool.query(
    `insert into mirror.outgoing_endpoints (endpoint_id, source_ids, paused_at) values ('erp', '{live}', now());
     insert into mirror.outgoing_deliveries (endpoint_id, source_id, position, event_type, state)
     values ('erp', 'live', 1, 'order.new', 'dead')`,
  );
  const test = ["outgoing", "test", "erp"];
  expect((await run(test)).stdout).toContain("sent to erp once it is resumed on /ops/outgoing;");
  await database.pool.query(
    "update mirror.outgoing_endpoints set paused_at = null, listed_at = now() - interval '61 seconds'",
  );
  const retry = await run(["outgoing", "retry", "erp", "--yes"]);
  expect(retry.stdout).toBe("1 message is sent to erp once a running worker lists it.\n");
  await database.pool.query("update mirror.outgoing_endpoints set listed_at = now()");
  expect((await run(test)).stdout).toContain("A test is sent to erp now;");
  expect((await run(["outgoing", "retry", "erp", "--yes"])).stdout).toMatch(
    /^\d+ messages are sent to erp now\./,
  );
});

it("commands that only read leave no entry", async () => {
  for (const args of [
    ["status"],
    ["order", "R1"],
    ["orders"],
    ["erase", "R1", "--dry-run"],
    ["replay", "--dry-run"],
  ])
    await run(args);
  expect(await readActions()).toEqual([]);
});

it("replay processes the entries of its reason, and with --dry-run none", async () => {
  const [first, second] = await putIntoInbox(database.pool, [
    { eventId: "evt_2", body: Buffer.from("no JSON") },
    { eventId: "evt_3", body: Buffer.from("{}") },
  ]);
  await database.pool.query(
    `insert into mirror.quarantine (source_id, inbox_seq, via, reason)
     values ('live', $1, 'webhook', 'dated_ahead'), ('live', $2, 'webhook', 'wrong_mode')`,
    [first, second],
  );
  const left = async () =>
    (await database.pool.query("select reason from mirror.quarantine where inbox_seq >= $1", [first])).rows;
  const replay = (...options: string[]) => run(["replay", "--reason", "wrong_mode", ...options]);
  expect(await replay("--dry-run", "--yes")).toMatchObject({
    code: 0,
    stdout: "In quarantine: 1 (1 wrong_mode).\n  1 event would be decided on again.\n",
  });
  expect(await left()).toHaveLength(2);
  expect((await replay("--yes")).stdout).toContain("Replayed 1 event; 0 orders will be read again.");
  expect(await left()).toEqual([{ reason: "dated_ahead" }]);
});
