import fc from "fast-check";
import { expect, it } from "vitest";
import { packArray, packByteArray, typeName, type ElementType } from "../../../src/database/binaryArrays.ts";
import { openTestDatabase } from "../../support/servers/database.ts";

const INT64 = { min: -(2n ** 63n), max: 2n ** 63n - 1n };
/** Values of each type, and the text that Postgres shows of one. */
const TYPES: Readonly<Record<ElementType, [fc.Arbitrary<string | number | bigint | boolean>, string]>> = {
  // Postgres' text holds every character but NUL.
  text: [fc.string({ unit: "grapheme" }).filter((text) => !text.includes("\0")), "value"],
  hex: [fc.uint8Array().map((bytes) => Buffer.from(bytes).toString("hex")), "encode(value, 'hex')"],
  bigint: [fc.bigInt(INT64), "value::text"],
  integer: [fc.integer(), "value::text"],
  smallint: [fc.integer({ min: -32_768, max: 32_767 }), "value::text"],
  boolean: [fc.boolean(), "value::text"],
  instant: [fc.bigInt(INT64), "(extract(epoch from value) * 1000000)::bigint::text"],
};

const { database } = await openTestDatabase();

/** Whole microseconds, rounded down. */
const micros = (nanos: bigint) => (nanos - (((nanos % 1_000n) + 1_000n) % 1_000n)) / 1_000n;

it.each(Object.keys(TYPES) as ElementType[])("sends every %s, and nulls between them", async (type) => {
  const [values, shown] = TYPES[type];
  const text = `select ${shown} as value from unnest($1::${typeName(type)}[]) with ordinality as r (value, place) order by place`;
  await fc.assert(
    fc.asyncProperty(fc.array(fc.option(values), { minLength: 1 }), async (sent) => {
      const { rows } = await database.pool.query<{ value: string | null }>(text, [packArray(type, sent)]);
      const expected = sent.map((value) => {
        if (value === null) return null;
        return String(type === "instant" ? micros(BigInt(value)) : value);
      });
      // A column of nulls is no array: unnest then has no rows, and fills them up next to another column.
      expect(rows.map(({ value }) => value)).toEqual(
        expected.some((value) => value !== null) ? expected : [],
      );
    }),
    { numRuns: 50 },
  );
});

it("sends bytes as they are", async () => {
  const sent = [
    Buffer.alloc(0),
    Buffer.from([0]),
    Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)),
  ];
  const text = `select value from unnest($1::bytea[]) with ordinality as r (value, place) order by place`;
  const { rows } = await database.pool.query<{ value: Buffer }>(text, [packByteArray(sent)]);
  expect(rows.map(({ value }) => value)).toEqual(sent);
});
