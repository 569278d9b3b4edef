import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import pg from "pg";
import { expect, it, onTestFinished } from "vitest";
import type * as applyModule from "../../../src/apply/apply.ts";
import type * as exportModule from "../../../src/orders/exportOrders.sql.ts";
import type * as orderModule from "../../../src/wire/order.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { deliveryEvents } from "../../../src/wire/events.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { at, makeSnapshot, readAt } from "../../support/mirror/orders.ts";

const ROOT = path.resolve(import.meta.dirname, "../../..");
const NOW = parseInstant(at(3_600));
const guide = await readFile(path.join(ROOT, "CONTRIBUTING.md"), "utf8");
const { database, pool, show } = await openLiveMirror();

/** A copy of src with the lines that the guide gives for a field before the first field of each file. */
async function copyWithField(): Promise<string> {
  const tree = await mkdtemp(path.join(tmpdir(), "new-order-field-"));
  onTestFinished(() => rm(tree, { recursive: true, force: true }));
  await cp(path.join(ROOT, "src"), path.join(tree, "src"), { recursive: true });
  await symlink(path.join(ROOT, "node_modules"), path.join(tree, "node_modules"));
  const lines = [...guide.matchAll(/^\| `(src\/[^`]+)`\s*\| `(zoneCode: [^`]+)`/gm)];
  expect(lines.map(([, file]) => file)).toEqual(["src/domain/order/orderColumns.ts", "src/wire/order.ts"]);
  for (const [, file = "", line = ""] of lines) {
    const text = await readFile(path.join(tree, file), "utf8");
    const changed = text.replace(/^( *)(fleetName: )/m, `$1${line}\n$1$2`);
    expect(changed).not.toBe(text);
    await writeFile(path.join(tree, file), changed);
  }
  return tree;
}

const orderIn = (zone: string, reference: string, updatedAt = at(0)) => ({
  reference,
  updatedAt,
  more: { zone: { code: zone } },
});

it("a new order field needs changes in the four files that the guide names, and old orders get the field too", async () => {
  await show(NOW, [orderIn("OLD", "R1"), orderIn("OLD", "R2")]);
  const { rows } = await pool.query<{ text: string }>(
    "select pg_get_viewdef('reporting.orders', true) as text",
  );
  const [, migration = ""] = /^```sql order field\n(.*?)^```/ms.exec(guide) ?? [];
  const view = rows[0]?.text.replace(/\n\s+FROM mirror\.orders o/, ",\n o.zone_code$&") ?? "";
  await pool.query(`${migration}; create or replace view reporting.orders as ${view}`);

  const tree = await copyWithField();
  const load = async <Module>(file: string) => (await import(path.join(tree, "src", file))) as Module;
  const { makeApply } = await load<typeof applyModule>("apply/apply.ts");
  const { readSnapshot } = await load<typeof orderModule>("wire/order.ts");
  const { readExport, EXPORT_COLUMNS } = await load<typeof exportModule>("orders/exportOrders.sql.ts");
  // New connections, as in a new release: a named statement keeps its text.
  const newPool = new pg.Pool({ connectionString: database.url, max: 2 });
  onTestFinished(() => newPool.end());
  const orders = [orderIn("OLD", "R1"), orderIn("MOVED", "R2", at(60)), orderIn("NEW", "R3")];
  const modes = new Map([["live", "live" as const]]);
  const { applyReads } = makeApply({ events: deliveryEvents, pool: newPool, logger: silentLogger, modes });
  const decisions = await applyReads({
    sourceId: "live",
    via: "poll",
    snapshots: orders.map(makeSnapshot).map(({ raw }) => readSnapshot(raw, JSON.parse(raw))),
    time: readAt(NOW),
  });
  expect(decisions.map(({ verdict }) => verdict)).toEqual(["duplicate", "applied", "applied"]);

  const columns = ["reference", "zone_code"].map((name) => Object.keys(EXPORT_COLUMNS).indexOf(name));
  const exported: string[] = [];
  for await (const batch of readExport(pool, { format: "csv", filter: { sourceId: "live" } }))
    exported.push(...batch.map((row) => columns.map((column) => row[column]).join(" ")));
  expect(exported.toSorted()).toEqual(["R1 OLD", "R2 MOVED", "R3 NEW"]);
});
