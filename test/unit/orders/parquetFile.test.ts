import { parquetMetadata, parquetReadObjects } from "hyparquet";
import { expect, it } from "vitest";
import { EXPORT_COLUMNS } from "../../../src/orders/export/orderExport.sql.ts";
import type { CellType, ExportCell } from "../../../src/orders/export/orderExport.sql.ts";
import { beginParquetFile } from "../../../src/orders/export/parquetFile.ts";

const COLUMNS = Object.entries(EXPORT_COLUMNS);
const CELLS: Readonly<Record<CellType, (n: number) => ExportCell>> = {
  text: (n) => `text ${n}`,
  boolean: (n) => n % 2 === 0,
  number: (n) => n,
  bigint: (n) => String(n),
  time: (n) => String(n * 1_000_000),
};
const makeRow = (n: number) => COLUMNS.map(([, type]) => (n % 7 === 0 ? null : CELLS[type](n)));

/** Counts the turns of the event loop that others have during `work`. */
async function countTurns(work: () => Promise<void>): Promise<number> {
  let turns = 0;
  let over = false;
  const count = () => {
    turns += 1;
    if (!over) setImmediate(count);
  };
  setImmediate(count);
  await work();
  over = true;
  return turns;
}

it("gives others their turn between two columns, and has all rows", async () => {
  const parts: Uint8Array[] = [];
  const file = beginParquetFile((bytes) => {
    parts.push(bytes);
    return Promise.resolve();
  });
  const rows = Array.from({ length: 6_000 }, (_, n) => makeRow(n));
  const turns = await countTurns(() => file.add(rows));
  expect(turns).toBeGreaterThanOrEqual(2 * COLUMNS.length);
  await file.finish({ day: "2026-11-22" });
  const { buffer } = Uint8Array.from(Buffer.concat(parts));
  const metadata = parquetMetadata(buffer);
  expect(metadata.row_groups.map(({ num_rows: count }) => Number(count))).toEqual([2_500, 2_500, 1_000]);
  expect(Number(metadata.num_rows)).toBe(rows.length);
  for (const { columns, total_compressed_size: size } of metadata.row_groups) {
    const sizes = columns.map(({ meta_data: column }) => Number(column?.total_compressed_size));
    expect(Number(size)).toBe(sizes.reduce((sum, each) => sum + each, 0));
    expect(columns.map(({ meta_data: column }) => column?.path_in_schema.join("."))).toEqual(
      COLUMNS.map(([name]) => name),
    );
  }
  const read = await parquetReadObjects({ file: buffer });
  expect(read).toHaveLength(rows.length);
  expect([0, 1, 2_501, 5_999].map((n) => [read[n]?.["reference"], read[n]?.["version"]])).toEqual([
    [null, null],
    ["text 1", 1n],
    ["text 2501", 2_501n],
    [null, null],
  ]);
});
