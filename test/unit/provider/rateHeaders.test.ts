import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { Token } from "structured-headers";
import { describe, expect, it } from "vitest";
import { parseNamedList, readRateHeaders } from "../../../src/provider/rateHeaders.ts";

const VECTORS = path.resolve(import.meta.dirname, "../../../../shared/vectors/structured-fields");
const HAVE_VECTORS = existsSync(VECTORS);

interface DraftExample {
  line: number;
  field: "ratelimit" | "ratelimit-policy";
  raw: string;
  parsed: { name: string; type: "string" | "token"; params: Record<string, unknown> }[];
}

interface ListVector {
  name: string;
  raw: string[];
  header_type: "list" | "item" | "dictionary";
  must_fail?: boolean;
  expected?: [unknown, [string, unknown][]][];
}

function readVectors<Vector>(file: string): Vector[] {
  return HAVE_VECTORS ? (JSON.parse(readFileSync(path.join(VECTORS, file), "utf8")) as Vector[]) : [];
}

/** Values in the vectors' notation. */
function plain(value: unknown): unknown {
  if (value instanceof ArrayBuffer) return { base64: Buffer.from(value).toString("base64") };
  return value instanceof Token ? { __type: "token", value: value.toString() } : value;
}

const headers = (fields: Record<string, string>) => new Headers(fields);

describe.skipIf(!HAVE_VECTORS)("public vectors", () => {
  const examples = readVectors<DraftExample>("ratelimit-draft-examples.json");

  it("are complete", () => {
    expect(examples).toHaveLength(44);
  });

  it.each(examples)("reads the draft's example at line $line: $field: $raw", ({ raw, parsed }) => {
    const entries = parseNamedList(raw).map(({ name, params }) => ({
      name,
      params: Object.fromEntries([...params].map(([key, value]) => [key, plain(value)])),
    }));
    expect(entries).toEqual(parsed.map(({ name, params }) => ({ name, params })));
  });

  it.each(examples)("interprets line $line by its q and w, or r and t", ({ field, raw, parsed }) => {
    const answer = readRateHeaders(headers({ [field]: raw }));
    const read = field === "ratelimit" ? answer.remaining : answer.declared;
    const usable = parsed.filter(({ params }) =>
      field === "ratelimit" ? "r" in params : "q" in params && "w" in params && !("qu" in params),
    );
    expect(read.map(({ policy }) => policy)).toEqual(usable.map(({ name }) => name));
  });

  const lists = ["list.json", "param-list.json", "listlist.json", "examples.json", "key-generated.json"]
    .flatMap((file) => readVectors<ListVector>(file))
    .filter(({ header_type }) => header_type === "list");

  it("include many lists", () => {
    expect(lists.length).toBeGreaterThan(20);
  });

  it.each(lists)("reads the names of the list: $name", ({ raw, must_fail, expected = [] }) => {
    const names = parseNamedList(raw.join(", ")).map(({ name }) => name);
    const isToken = (value: unknown) =>
      typeof value === "object" && value !== null && "__type" in value && value.__type === "token";
    const named = expected
      .filter(([value]) => typeof value === "string" || isToken(value))
      .map(([value]) => (typeof value === "string" ? value : (value as { value: string }).value));
    expect(names).toEqual(must_fail === true ? [] : named);
  });
});

it("finds the public vectors, or reports on stderr that they did not run", () => {
  if (!HAVE_VECTORS)
    process.stderr.write(`The structured-field vectors DID NOT RUN: no folder ${VECTORS}.\n`);
  expect(readVectors("list.json").length > 0).toBe(HAVE_VECTORS);
});

describe("rate headers of an answer", () => {
  it("reads policies and what remains, as the spec shows them", () => {
    const answer = readRateHeaders(
      headers({
        "ratelimit-policy": '"order-list";q=20;w=10, "sustained";q=200;w=10',
        ratelimit: '"order-list";r=17;t=4, "sustained";r=180;t=9',
      }),
    );
    expect(answer.declared).toEqual([
      { policy: "order-list", requestsMax: 20, windowMs: 10_000 },
      { policy: "sustained", requestsMax: 200, windowMs: 10_000 },
    ]);
    expect(answer.remaining).toEqual([
      { policy: "order-list", remaining: 17, resetMs: 4_000 },
      { policy: "sustained", remaining: 180, resetMs: 9_000 },
    ]);
  });

  it("joins several field lines into one list", () => {
    const several = new Headers();
    several.append("ratelimit", '"order-list";r=1;t=2');
    several.append("ratelimit", "sustained;r=3;t=4");
    expect(readRateHeaders(several).remaining.map(({ policy }) => policy)).toEqual([
      "order-list",
      "sustained",
    ]);
  });

  it("treats a missing t as an unknown reset", () => {
    expect(readRateHeaders(headers({ ratelimit: '"sustained";r=3' })).remaining).toEqual([
      { policy: "sustained", remaining: 3, resetMs: null },
    ]);
  });

  it("cuts an absurd t as Retry-After is cut: one header must not stop polling for years", () => {
    expect(readRateHeaders(headers({ ratelimit: '"order-list";r=0;t=999999999' })).remaining).toEqual([
      { policy: "order-list", remaining: 0, resetMs: 600_000 },
    ]);
  });

  it.each([
    ["no list at all", '"sustained";r=3;t='],
    ["no name", "3;r=3;t=4"],
    ["an inner list", '("sustained");r=3;t=4'],
    ["no r", '"sustained";t=4'],
    ["a negative r", '"sustained";r=-1;t=4'],
    ["a fraction for r", '"sustained";r=1.5;t=4'],
    ["text for r", '"sustained";r="1";t=4'],
    ["nothing", ""],
  ])("ignores a RateLimit with %s", (_, field) => {
    expect(readRateHeaders(headers({ ratelimit: field })).remaining).toEqual([]);
  });

  it.each([
    ["no q", '"sustained";w=10'],
    ["no w", '"sustained";q=10'],
    ["an empty window", '"sustained";q=10;w=0'],
    ["another unit", '"sustained";q=10;w=10;qu="content-bytes"'],
  ])("ignores a RateLimit-Policy with %s", (_, field) => {
    expect(readRateHeaders(headers({ "ratelimit-policy": field })).declared).toEqual([]);
  });

  it("does not mistake remaining bytes for requests", () => {
    const answer = readRateHeaders(
      headers({
        "ratelimit-policy": '"sustained";q=65535;w=10;qu="content-bytes"',
        ratelimit: '"sustained";r=0;t=4',
      }),
    );
    expect(answer.remaining).toEqual([]);
  });

  it("reads the good entries next to a bad one", () => {
    expect(readRateHeaders(headers({ ratelimit: '"sustained", "order-list";r=2;t=1' })).remaining).toEqual([
      { policy: "order-list", remaining: 2, resetMs: 1_000 },
    ]);
  });
});
