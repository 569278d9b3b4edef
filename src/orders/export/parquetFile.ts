import { setImmediate as nextTurn } from "node:timers/promises";
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

/** As many rows are in memory. With fewer, the file would be slow to read. */
const GROUP_ROWS = 2_500;

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

const SCHEMA = COLUMNS.map(([name, type]) => ({
  name,
  repetition_type: "OPTIONAL" as const,
  ...TYPES[type],
}));

/**
 * Begins a Parquet file with the columns of EXPORT_COLUMNS, compressed with Snappy. `put` gets its bytes, one row group
 * at a time, and resolves when the next may follow.
 *
 * The library encodes a whole row group at once, which would hold up the requests of the process for 60 to 130 ms. So each
 * column has a writer of its own, and others have their turn between two columns.
 */
export function beginParquetFile(put: (bytes: Uint8Array) => Promise<void>): ParquetFile {
  const bytes = new ByteWriter();
  const file = beginTable(bytes, SCHEMA);
  const columns = COLUMNS.map(([name, type], index) => ({
    name,
    type,
    writer: beginColumn(bytes, SCHEMA.slice(index, index + 1)),
  }));
  let waiting: (readonly ExportCell[])[] = [];

  async function flush(): Promise<void> {
    const written = bytes.getBytes().slice();
    // The offset, which counts all bytes of the file, stays.
    bytes.index = 0;
    await put(written);
  }

  async function writeGroup(rows: readonly (readonly ExportCell[])[]): Promise<void> {
    if (rows.length === 0) return;
    const start = bytes.offset;
    for (const [index, { name, type, writer }] of columns.entries()) {
      const data = rows.map((row) => toValue(row[index], type));
      await writer.write({ columnData: [{ name, data }], rowGroupSize: rows.length });
      await nextTurn();
    }
    const groups = columns.flatMap(({ writer }) => writer.row_groups.splice(0));
    file.pendingIndexes.push(...columns.flatMap(({ writer }) => writer.pendingIndexes.splice(0)));
    file.num_rows += BigInt(rows.length);
    file.row_groups.push({
      columns: groups.flatMap((group) => group.columns),
      num_rows: BigInt(rows.length),
      total_byte_size: groups.reduce((sum, group) => sum + group.total_byte_size, 0n),
      total_compressed_size: BigInt(bytes.offset - start),
    });
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

function beginTable(writer: ByteWriter, columns: typeof SCHEMA): ParquetWriter {
  const schema = [{ name: "orders", num_children: columns.length }, ...columns];
  return new ParquetWriter({ writer, schema, createdBy: "order-mirror" });
}

/** A writer of one column, without the head of a file, into the bytes of another one. */
function beginColumn(bytes: ByteWriter, columns: typeof SCHEMA): ParquetWriter {
  return Object.assign(beginTable(new ByteWriter(), columns), { writer: bytes });
}

/** Postgres returns integers of 64 bits as text. */
function toValue(cell: ExportCell | undefined, type: CellType): ExportCell | bigint {
  if (cell === null || cell === undefined) return null;
  return type === "time" || type === "bigint" ? BigInt(cell) : cell;
}
