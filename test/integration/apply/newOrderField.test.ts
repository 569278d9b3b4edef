import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import pg from "pg";
import { afterAll, expect, it, onTestFinished } from "vitest";
import { makeApply } from "../../../src/apply/apply.ts";
import type * as applyModule from "../../../src/apply/apply.ts";
import type * as exportModule from "../../../src/orders/orderExport.sql.ts";
import type * as orderModule from "../../../src/wire/order.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { deliveryEvents } from "../../../src/wire/events.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { addSource, at, makeSnapshot, readAt } from "../../support/mirror/orders.ts";

const ROOT = path.resolve(import.meta.dirname, "../../..");
const NOW = readAt(parseInstant(at(3_600)));

const { database } = await openTestDatabase();
let tree: string;

/** Inserts the lines that the guide gives for a field before the first field of each file. */
async function copyWithField(): Promise<void> {
  tree = await mkdtemp(path.join(tmpdir(), "new-order-field-"));
  await cp(path.join(ROOT, "src"), path.join(tree, "src"), { recursive: true });
  await symlink(path.join(ROOT, "node_modules"), path.join(tree, "node_modules"));
  const lines = [...guide.matchAll(/^\| `(src\/[^`]+)`\s*\| `(zoneCode: [^`]+)`/gm)];
  expect(lines.map(([, file]) => file)).toEqual(["src/domain/order/orderColumns.ts", "src/wire/order.ts"]);
  for (const [, file = "", line = ""] of lines) {
    const target = path.join(tree, file);
    const text = await readFile(target, "utf8");
    const changed = text.replace(/^( *)(fleetName: )/m, `$1${line}\n$1$2`);
    expect(changed).not.toBe(text);
    await writeFile(target, changed);
  }
}

const guide = await readFile(path.join(ROOT, "CONTRIBUTING.md"), "utf8");
await addSource(database.pool, "live");
await copyWithField();
afterAll(() => rm(tree, { recursive: true, force: true }));

/** Imports a module of the copy. */
const fromCopy = async <Module>(file: string) => (await import(path.join(tree, "src", file))) as Module;

function orderIn(zone: string, reference: string, updatedAt = at(0)) {
  return makeSnapshot({ reference, updatedAt, more: { zone: { code: zone } } });
}

it("a new order field needs changes in the four files that the guide names, and old orders get the field too", async () => {
  const { pool } = database;
  const deps = {
    events: deliveryEvents,
    pool,
    logger: silentLogger,
    modes: new Map([["live", "live" as const]]),
  };
  const reads = { sourceId: "live", via: "poll", time: NOW } as const;
  await makeApply(deps).applyReads({ ...reads, snapshots: [orderIn("OLD", "R1"), orderIn("OLD", "R2")] });

  const { rows: views } = await pool.query<{ text: string }>(
    "select pg_get_viewdef('reporting.orders', true) as text",
  );
  const [, migration = ""] = /^```sql order field\n(.*?)^```/ms.exec(guide) ?? [];
  const view = views[0]?.text.replace(/\n\s+FROM mirror\.orders o/, ",\n o.zone_code$&") ?? "";
  await pool.query(`${migration}; create or replace view reporting.orders as ${view}`);

  const { makeApply: makeNewApply } = await fromCopy<typeof applyModule>("apply/apply.ts");
  const { readSnapshot } = await fromCopy<typeof orderModule>("wire/order.ts");
  const { readOrderRows, EXPORT_COLUMNS } = await fromCopy<typeof exportModule>("orders/orderExport.sql.ts");
  const again = (order: ReturnType<typeof orderIn>) => readSnapshot(order.raw, JSON.parse(order.raw));
  // New connections, as in a new release: a named statement keeps its text.
  const newPool = new pg.Pool({ connectionString: database.url, max: 2 });
  onTestFinished(() => newPool.end());
  const decisions = await makeNewApply({ ...deps, pool: newPool }).applyReads({
    ...reads,
    snapshots: [
      again(orderIn("OLD", "R1")),
      again(orderIn("MOVED", "R2", at(60))),
      again(orderIn("NEW", "R3")),
    ],
  });
  expect(decisions.map(({ verdict }) => verdict)).toEqual(["duplicate", "applied", "applied"]);

  const exported: unknown[] = [];
  const names = Object.keys(EXPORT_COLUMNS);
  for await (const batch of readOrderRows(pool, { sourceId: "live" })) {
    for (const row of batch)
      exported.push([row[names.indexOf("reference")], row[names.indexOf("zone_code")]]);
  }
  expect(exported).toEqual(
    expect.arrayContaining([
      ["R1", "OLD"],
      ["R2", "MOVED"],
      ["R3", "NEW"],
    ]),
  );
});
