import { microsFromInstant } from "../domain/order/instant.ts";

type Element = string | number | bigint | boolean;
export type ElementType = "text" | "hex" | "bigint" | "integer" | "smallint" | "boolean" | "instant";

interface Encoding<Value> {
  /** In pg_type. */
  readonly oid: number;
  readonly bytesOf: (value: Value) => number;
  readonly write: (target: { buffer: Buffer; view: DataView }, at: number, value: Value) => void;
}

/** Dimensions, whether there are nulls, type of the elements; then length and lower bound of the only dimension. */
const HEAD_BYTES = 20;
const LENGTH_BYTES = 4;
const NULL_LENGTH = -1;
/** Postgres counts microseconds from 2000. */
const MICROS_TO_2000 = 946_684_800_000_000n;

const BYTES: Encoding<Buffer> = {
  oid: 17,
  bytesOf: (value) => value.length,
  write: ({ buffer }, at, value) => void value.copy(buffer, at),
};
const ENCODINGS: Readonly<Record<ElementType, Encoding<Element>>> = {
  text: {
    oid: 25,
    bytesOf: (value) => Buffer.byteLength(String(value)),
    write: ({ buffer }, at, value) => void buffer.write(String(value), at),
  },
  hex: {
    oid: 17,
    bytesOf: (value) => String(value).length / 2,
    write: ({ buffer }, at, value) => void buffer.write(String(value), at, "hex"),
  },
  bigint: {
    oid: 20,
    bytesOf: () => 8,
    write: ({ view }, at, value) => view.setBigInt64(at, BigInt(value)),
  },
  integer: { oid: 23, bytesOf: () => 4, write: ({ view }, at, value) => view.setInt32(at, Number(value)) },
  smallint: { oid: 21, bytesOf: () => 2, write: ({ view }, at, value) => view.setInt16(at, Number(value)) },
  boolean: { oid: 16, bytesOf: () => 1, write: ({ view }, at, value) => view.setInt8(at, Number(value)) },
  instant: {
    oid: 1_184,
    bytesOf: () => 8,
    write: ({ view }, at, value) => view.setBigInt64(at, microsFromInstant(BigInt(value)) - MICROS_TO_2000),
  },
};

/** The name of the type in a cast. An instant loses its nanoseconds; `hex` is text that stands for bytes. */
export function typeName(type: ElementType): string {
  if (type === "hex") return "bytea";
  return type === "instant" ? "timestamptz" : type;
}

/**
 * A parameter for `$n::TYPE[]` in Postgres' binary form, because the server reads JSON or an array's text, and builds
 * the values from it, at more than twice the cost. Null if all values are null: `unnest` then fills the column with
 * nulls.
 */
export function packArray(type: ElementType, values: readonly (Element | null)[]): Buffer | null {
  return values.every((value) => value === null) ? null : pack(ENCODINGS[type], values);
}

/** Writes the array for `$n::bytea[]`, from the bytes themselves. */
export function packByteArray(values: readonly Buffer[]): Buffer {
  return pack(BYTES, values);
}

function pack<Value>({ oid, bytesOf, write }: Encoding<Value>, values: readonly (Value | null)[]): Buffer {
  const lengths = values.map((value) => (value === null ? NULL_LENGTH : bytesOf(value)));
  const bytes = lengths.reduce((sum, length) => sum + LENGTH_BYTES + Math.max(0, length), HEAD_BYTES);
  const buffer = Buffer.allocUnsafe(bytes);
  const view = new DataView(buffer.buffer, buffer.byteOffset, bytes);
  for (const [place, word] of [1, Number(lengths.includes(NULL_LENGTH)), oid, values.length, 1].entries())
    view.setInt32(place * LENGTH_BYTES, word);
  let at = HEAD_BYTES;
  for (const [place, value] of values.entries()) {
    const length = lengths[place] ?? NULL_LENGTH;
    view.setInt32(at, length);
    at += LENGTH_BYTES;
    if (value === null) continue;
    write({ buffer, view }, at, value);
    at += length;
  }
  return buffer;
}
