import { readFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";

const ROOT = path.resolve(import.meta.dirname, "../../..");

let database: TestDatabase;
beforeAll(async () => {
  database = await makeTestDatabase();
});
afterAll(() => database.drop());

async function listColumns(): Promise<Map<string, string>> {
  const { rows } = await database.pool.query<{ name: string; type: string }>(
    `select table_name || '.' || column_name as name, data_type as type from information_schema.columns
     where table_schema = 'reporting'`,
  );
  return new Map(rows.map(({ name, type }) => [name, type]));
}

describe("examples/dbt/sources.yml", () => {
  it("names only columns that exist, and measures freshness by a time", async () => {
    const known = await listColumns();
    const named: string[] = [];
    const loadedAt: string[] = [];
    let table = "";
    for (const line of (await readFile(path.join(ROOT, "examples/dbt/sources.yml"), "utf8")).split("\n")) {
      table = /^ {6}- name: (\w+)$/.exec(line)?.[1] ?? table;
      const column = /^ {10}- name: (\w+)$/.exec(line)?.[1];
      if (column !== undefined) named.push(`${table}.${column}`);
      const field = /^ {8}loaded_at_field: (\w+)$/.exec(line)?.[1];
      if (field !== undefined) loadedAt.push(`${table}.${field}`);
    }
    expect(named.length).toBeGreaterThan(20);
    expect(named.filter((name) => !known.has(name))).toEqual([]);
    expect(loadedAt).toEqual(["sync_status.safe_through"]);
    expect(known.get("sync_status.safe_through")).toBe("timestamp with time zone");
  });
});

/** What Grafana needs of a dashboard with schemaVersion 39, as far as these dashboards use it. */
const DATASOURCE = z.strictObject({ type: z.string(), uid: z.literal("${datasource}") });
const TARGET = z.looseObject({ refId: z.string().regex(/^[A-Z]$/) });
const PANEL = z.looseObject({
  id: z.int().positive(),
  type: z.enum(["timeseries", "table", "barchart", "stat", "gauge", "bargauge", "heatmap", "row"]),
  title: z.string().min(1),
  datasource: DATASOURCE.optional(),
  gridPos: z
    .strictObject({ x: z.int().min(0), y: z.int().min(0), w: z.int().min(1), h: z.int().min(1) })
    .refine(({ x, w }) => x + w <= 24),
  timeFrom: z
    .string()
    .regex(/^\d+[smhdwMy]$/)
    .optional(),
  fieldConfig: z.strictObject({
    defaults: z.looseObject({ unit: z.string().optional() }),
    overrides: z.array(z.unknown()),
  }),
  targets: z.array(TARGET).min(1),
});
const DASHBOARD = z.looseObject({
  title: z.string().min(1),
  uid: z.string().max(40),
  schemaVersion: z.literal(39),
  time: z.strictObject({ from: z.string(), to: z.string() }),
  templating: z.strictObject({ list: z.array(z.looseObject({ name: z.string(), type: z.string() })) }),
  panels: z.array(PANEL).min(1),
});
const POSTGRES_TARGET = z.strictObject({
  refId: z.string(),
  format: z.enum(["table", "time_series"]),
  rawQuery: z.literal(true),
  editorMode: z.literal("code"),
  rawSql: z.string().startsWith("select "),
});

const overlaps = (a: z.infer<typeof PANEL>["gridPos"], b: z.infer<typeof PANEL>["gridPos"]) =>
  a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;

const loadDashboard = async (name: string) =>
  DASHBOARD.parse(
    JSON.parse(await readFile(path.join(ROOT, `config/grafana/order-mirror-${name}.json`), "utf8")),
  );

describe("the Grafana dashboards", () => {
  it.each(["prometheus", "reporting"])("%s has the shape that Grafana reads", async (name) => {
    const { panels } = await loadDashboard(name);
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    for (const [index, one] of panels.entries()) {
      expect(panels.slice(index + 1).filter((other) => overlaps(one.gridPos, other.gridPos))).toEqual([]);
    }
  });

  it("reporting has complete queries", async () => {
    const { panels } = await loadDashboard("reporting");
    for (const target of panels.flatMap(({ targets }) => targets)) {
      const { format, rawSql } = POSTGRES_TARGET.parse(target);
      expect(/\bas time\b|\$__timeGroupAlias/.test(rawSql)).toBe(format === "time_series");
    }
  });
});
