export type Random = () => number;

function pick<Value>(random: Random, values: readonly [Value, ...Value[]]): Value {
  return values[Math.floor(random() * values.length)] ?? values[0];
}

/** JSON texts that have broken programs before. */
const NASTY_TEXTS: readonly [string, ...string[]] = [
  "null",
  "true",
  "-0",
  "1e400",
  "123456789012345678901234567890",
  "0.1e-999",
  '""',
  String.raw`"\u0000"`,
  String.raw`"\ud800"`,
  String.raw`"\udc00\ud800"`,
  `"${"ü".repeat(300)}"`,
  `"${"x".repeat(70_000)}"`,
  '"2026-02-30T25:61:61+99:99"',
  '"0000-01-01T00:00:00Z"',
  '"9999-12-31T23:59:59.999999999999Z"',
  `"'; drop schema mirror cascade; --"`,
  '"<img src=x onerror=alert(1)>"',
  "[]",
  "{}",
  '{"__proto__":{"polluted":true}}',
  '{"constructor":{"prototype":{"polluted":true}}}',
  `${"[".repeat(200)}${"]".repeat(200)}`,
  '{"a":1,"a":2,"":{"":[]}}',
  "[1,[2,[3,{}]]]",
];

const NASTY_BYTES: readonly [Buffer, ...Buffer[]] = [
  Buffer.from([0]),
  Buffer.from([0xff, 0xfe]),
  Buffer.from([0xed, 0xa0, 0x80]),
  Buffer.from([0xc0, 0xaf]),
  Buffer.from("\ufeff"),
  Buffer.from("\r\n"),
  Buffer.from("\r\n\r\n"),
  Buffer.from("\n"),
  Buffer.from('"'),
  Buffer.from("\\"),
  Buffer.from("{"),
  Buffer.from("]"),
  Buffer.from(","),
  Buffer.from("Content-Length: 5\r\n"),
  Buffer.from("Transfer-Encoding: chunked\r\n"),
  Buffer.alloc(300, "A"),
];

/** The JSON text with one of its values replaced, or with one more member. */
export function mutateJson(random: Random, text: string): string {
  const values = [...text.matchAll(/"(?:[^"\\]|\\.)*"(?!\s*:)|true|false|null|-?\d[\d.eE+-]*/g)];
  const value = values[Math.floor(random() * values.length)];
  const nasty = pick(random, NASTY_TEXTS);
  if (value === undefined || random() < 0.2)
    return text.replace("{", () => `{"${pick(random, KEYS)}":${nasty},`);
  return `${text.slice(0, value.index)}${nasty}${text.slice(value.index + value[0].length)}`;
}

const KEYS: readonly [string, ...string[]] = [
  "__proto__",
  "constructor",
  "toString",
  "id",
  "data",
  "type",
  "livemode",
  String.raw`\u0000`,
  "",
];

/** The bytes with one to three places changed, removed, doubled or replaced by a harmful value. */
export function mutateBytes(random: Random, bytes: Buffer): Buffer {
  let result = bytes;
  for (let left = 1 + Math.floor(random() * 3); left > 0; left -= 1) result = mutateOnce(random, result);
  return result;
}

function mutateOnce(random: Random, bytes: Buffer): Buffer {
  const start = Math.floor(random() * (bytes.length + 1));
  const end = Math.min(bytes.length, start + 1 + Math.floor(random() ** 3 * 64));
  const before = bytes.subarray(0, start);
  const after = bytes.subarray(end);
  switch (pick(random, ["flip", "cut", "double", "insert", "replace", "truncate"] as const)) {
    case "flip": {
      const flipped = Buffer.from(bytes);
      if (start < flipped.length) flipped[start] = (flipped[start] ?? 0) ^ (1 << Math.floor(random() * 8));
      return flipped;
    }
    case "cut":
      return Buffer.concat([before, after]);
    case "double":
      return Buffer.concat([before, bytes.subarray(start, end), bytes.subarray(start, end), after]);
    case "insert":
      return Buffer.concat([before, pick(random, NASTY_BYTES), bytes.subarray(start)]);
    case "replace":
      return Buffer.concat([before, pick(random, NASTY_BYTES), after]);
    case "truncate":
      return before;
  }
}
