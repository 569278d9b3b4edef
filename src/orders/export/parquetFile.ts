import { ByteWriter, ParquetWriter } from "hyparquet-writer";
import { EXPORT_COLUMNS } from "./orderExport.sql.ts";
import type { CellType, ExportCell } from "./orderExport.sql.ts";

/** A Parquet file of orders that is being written. */
export interface ParquetFile {
  /** Adds rows of EXPORT_COLUMNS; times are microseconds since 1970. */
  readonly add: (rows: readonly (readonly ExportCell[])[]) => Promise<void>;
  /** Writes what is left and the footer, with `metadata` as its key-value metadata. */
  readonly finish: (metadata?: Readonly<Record<string, string>>) => Promise<void>;
}

/**
 * As many rows are in memory. Fewer would make the file slow to read, and more would hold up other requests of the
 * process for longer than some 50 ms while they are encoded.
 */
const GROUP_ROWS = 5_000;

const COLUMNS = Object.entries(EXPORT_COLUMNS);

const TYPES = {
  text: { type: "BYTE_ARRAY", converted_type: "UTF8", logical_type: { type: "STRING" } },
  boolean: { type: "BOOLEAN" },
  number: { type: "INT32" },
  bigint: { type: "INT64" },
  time: {
    type: "INT64",
    converted_type: "TIMESTAMP_MICROS",
    logical_type: { type: "TIMESTAMP", isAdjustedToUTC: true, unit: "MICROS" },
  },
} as const satisfies Readonly<Record<CellType, unknown>>;

const SCHEMA = [
  { name: "orders", num_children: COLUMNS.length },
  ...COLUMNS.map(([name, type]) => ({ name, repetition_type: "OPTIONAL" as const, ...TYPES[type] })),
];

/**
 * Begins a Parquet file with the columns of EXPORT_COLUMNS, compressed with Snappy. `put` gets its bytes, one row group
 * at a time, and resolves when the next may follow.
 */
export function beginParquetFile(put: (bytes: Uint8Array) => Promise<void>): ParquetFile {
  const bytes = new ByteWriter();
  const file = new ParquetWriter({ writer: bytes, schema: SCHEMA, createdBy: "order-mirror" });
  let waiting: (readonly ExportCell[])[] = [];

  async function flush(): Promise<void> {
    const written = bytes.getBytes().slice();
    // The offset, which counts all bytes of the file, stays.
    bytes.index = 0;
    await put(written);
  }

  async function writeGroup(rows: readonly (readonly ExportCell[])[]): Promise<void> {
    if (rows.length === 0) return;
    const columnData = COLUMNS.map(([name, type], index) => ({
      name,
      data: rows.map((row) => toValue(row[index], type)),
    }));
    await file.write({ columnData, rowGroupSize: rows.length });
    await flush();
  }

  return {
    async add(rows) {
      waiting.push(...rows);
      while (waiting.length >= GROUP_ROWS) {
        const group = waiting.slice(0, GROUP_ROWS);
        waiting = waiting.slice(GROUP_ROWS);
        await writeGroup(group);
      }
    },
    async finish(metadata = {}) {
      await writeGroup(waiting);
      file.kvMetadata = Object.entries(metadata).map(([key, value]) => ({ key, value }));
      await file.finish();
      await flush();
    },
  };
}

/** Postgres returns integers of 64 bits as text. */
function toValue(cell: ExportCell | undefined, type: CellType): ExportCell | bigint {
  if (cell === null || cell === undefined) return null;
  return type === "time" || type === "bigint" ? BigInt(cell) : cell;
}
