import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { CsvError, parse } from "csv-parse";
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from "hyparquet";
import { ConfigurationError } from "../domain/errors.ts";
import { CSV_SEPARATORS, restoreText } from "../orders/export/orderCsv.ts";
import { readSnapshot } from "../wire/order.ts";
import { CERTIFICATE_ENTRY } from "./statement.ts";
import type { OrderState } from "../domain/order/order.ts";

/** The columns of a file that the hash needs. */
const NEEDED = ["reference", "version", "content_hash"] as const;

/** The states that a file has, and whether it shows that their content is that of their hash. */
export interface StatesOfFile {
  readonly states: readonly OrderState[];
  /** NDJSON has whole orders, whose hash is computed; other formats only state it. */
  readonly hasContent: boolean;
}

/**
 * Reads the states of a file: CSV, NDJSON or Parquet as `export` writes them, or the CSV of `certify --states`. Throws
 * ConfigurationError if it cannot be read, with the place.
 */
export async function readStates(file: string): Promise<StatesOfFile> {
  try {
    const head = await readHead(file);
    if (head.startsWith("PAR1")) return { states: await readParquet(file), hasContent: false };
    if (/^\s*(?:\{|$)/.test(head)) return { states: await readOrders(file), hasContent: true };
    return { states: await readCsv(file, head), hasContent: false };
  } catch (error) {
    if (error instanceof ConfigurationError) throw error;
    throw new ConfigurationError(`The file ${file} cannot be read.`, { cause: error });
  }
}

/** The certificate that a daily file has; undefined for any other file. Throws ConfigurationError if it cannot be read. */
export async function readCertificateOf(file: string): Promise<string | undefined> {
  try {
    if (!(await readHead(file)).startsWith("PAR1")) return undefined;
    const { key_value_metadata: entries = [] } = await parquetMetadataAsync(await asyncBufferFromFile(file));
    return entries.find(({ key }) => key === CERTIFICATE_ENTRY)?.value;
  } catch (error) {
    throw new ConfigurationError(`The file ${file} cannot be read.`, { cause: error });
  }
}

const HEAD_BYTES = 4_096;

async function readHead(file: string): Promise<string> {
  const handle = await open(file);
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await handle.close();
  }
}

async function readOrders(file: string): Promise<OrderState[]> {
  const states: OrderState[] = [];
  let number = 0;
  for await (const line of readLines(file)) {
    number += 1;
    if (line.trim() === "") continue;
    const state = readOrder(line);
    if (state === undefined) throw refuse(`Line ${number} of ${file} is not an order.`);
    states.push(state);
  }
  return states;
}

/** Only at line feeds: JSON may contain other separators of lines. */
async function* readLines(file: string): AsyncGenerator<string> {
  let rest = "";
  for await (const chunk of createReadStream(file, "utf8") as AsyncIterable<string>) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
  yield rest;
}

function readOrder(line: string): OrderState | undefined {
  try {
    const { fields, version, hash } = readSnapshot(line, JSON.parse(line));
    return { reference: fields.reference, version, hash };
  } catch {
    return undefined;
  }
}

async function readCsv(file: string, head: string): Promise<OrderState[]> {
  const [names = ""] = head.split(/\r?\n/, 1);
  const has = (separator: string) => names.replace("\u{feff}", "").split(separator).includes("reference");
  const delimiter = Object.values(CSV_SEPARATORS).find(has);
  if (delimiter === undefined) throw refuse(`${file} has no column reference.`);
  const states: OrderState[] = [];
  const columns = (found: string[]) => {
    assertColumns(file, found);
    return found;
  };
  const rows = parse({ delimiter, bom: true, columns, skip_empty_lines: true });
  const onRows = async (read: AsyncIterable<Record<string, string>>) => {
    for await (const row of read) {
      const cells = NEEDED.map((name) => restoreText(row[name] ?? ""));
      states.push(toState(cells, () => `Order ${states.length + 1} of ${file}`));
    }
  };
  try {
    await pipeline(createReadStream(file), rows, onRows);
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    throw refuse(`${file} is not CSV: ${error.message}.`);
  }
  return states;
}

async function readParquet(path: string): Promise<OrderState[]> {
  const file = await asyncBufferFromFile(path);
  const metadata = await parquetMetadataAsync(file);
  assertColumns(
    path,
    metadata.schema.map(({ name }) => name),
  );
  const states: OrderState[] = [];
  let rowStart = 0;
  for (const { num_rows: count } of metadata.row_groups) {
    const rowEnd = rowStart + Number(count);
    for (const row of await parquetReadObjects({ file, metadata, columns: [...NEEDED], rowStart, rowEnd })) {
      const cells = NEEDED.map((name) => String(row[name]));
      states.push(toState(cells, () => `Order ${states.length + 1} of ${path}`));
    }
    rowStart = rowEnd;
  }
  return states;
}

function assertColumns(file: string, names: readonly string[]): void {
  const missing = NEEDED.filter((name) => !names.includes(name));
  if (missing.length > 0) throw refuse(`${file} has no column ${missing.join(", ")}.`);
}

function toState(cells: readonly string[], nameRow: () => string): OrderState {
  const [reference = "", version = "", hash = ""] = cells;
  if (reference === "" || !/^-?\d+$/.test(version) || !/^[0-9a-f]{64}$/.test(hash)) {
    throw refuse(`${nameRow()} has no reference, version or content_hash of the form of an export.`);
  }
  return { reference, version: BigInt(version), hash };
}

function refuse(message: string): ConfigurationError {
  return new ConfigurationError(message, {
    fix: "Give what export or certify has written: CSV or Parquet with the columns reference, version and content_hash, or NDJSON with an order per line.",
  });
}
