import { expect, it, onTestFinished } from "vitest";
import { openTestDatabase } from "../../support/servers/database.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { at, makeEventBody } from "../../support/mirror/orders.ts";
import { post, startReceiving } from "../../support/signing/receiving.ts";
import { makeRandom } from "../../support/faults/random.ts";

/** A longer run, of other bodies: FUZZ_SHOTS=50000 PROPERTY_SEED=7. */
const SHOTS = Number(process.env["FUZZ_SHOTS"] ?? (process.env["TEST_LONG"] === "1" ? 10_000 : 1_200));
const SEED = Number(process.env["PROPERTY_SEED"] ?? 1);
const SENDERS = 16;
/** Shots between two checks of the database. */
const ROUND_SHOTS = 400;
/** Part of every body, so that a log line that repeats it is found. */
const CANARY = "canary7f3a";

const random = makeRandom(SEED);
const pick = <Value>(values: readonly Value[]): Value => values[Math.floor(random() * values.length)]!;

/** JSON texts and keys that have broken programs before. */
const NASTY_TEXTS = [
  ["null", "true", "-0", "1e400", "123456789012345678901234567890", "0.1e-999", '""', "[]", "{}"],
  [String.raw`"\u0000"`, String.raw`"\ud800"`, String.raw`"\udc00\ud800"`, '"<img src=x onerror=alert(1)>"'],
  ['"2026-02-30T25:61:61+99:99"', '"0000-01-01T00:00:00Z"', '"9999-12-31T23:59:59.999999999999Z"'],
  ['{"__proto__":{"polluted":true}}', '{"constructor":{"prototype":{"polluted":true}}}'],
  [`"'; drop schema mirror cascade; --"`, '{"a":1,"a":2,"":{"":[]}}', "[1,[2,[3,{}]]]"],
  [`"${"ü".repeat(300)}"`, `"${"x".repeat(70_000)}"`, `${"[".repeat(200)}${"]".repeat(200)}`],
].flat();
const NASTY_KEYS = [
  "",
  ...String.raw`__proto__ constructor toString id data type livemode \u0000`.split(" "),
];
const NASTY_BYTES = [
  ...[[0], [0xff, 0xfe], [0xed, 0xa0, 0x80], [0xc0, 0xaf]].map((bytes) => Buffer.from(bytes)),
  ...["\ufeff", "\r\n", "\r\n\r\n", "\n", '"', "\\", "{", "]", ",", "A".repeat(300)].map((text) =>
    Buffer.from(text),
  ),
];

/** The JSON text with one of its values replaced, or with one more member. */
function mutateJson(text: string): string {
  const values = [...text.matchAll(/"(?:[^"\\]|\\.)*"(?!\s*:)|true|false|null|-?\d[\d.eE+-]*/g)];
  const value = pick(values);
  const nasty = pick(NASTY_TEXTS);
  if (value === undefined || random() < 0.2)
    return text.replace("{", () => `{"${pick(NASTY_KEYS)}":${nasty},`);
  return `${text.slice(0, value.index)}${nasty}${text.slice(value.index + value[0].length)}`;
}

/** The bytes with a harmful value somewhere, in the place of some of them or of all that follow. */
function mutateBytes(bytes: Buffer): Buffer {
  const start = Math.floor(random() * (bytes.length + 1));
  const rest = bytes.subarray(start + Math.floor(random() ** 3 * 64));
  return Buffer.concat([bytes.subarray(0, start), pick(NASTY_BYTES), pick([rest, Buffer.alloc(0)])]);
}

function makeBody(place: number): Buffer {
  const order = { reference: `R${place % 50}`, updatedAt: at(place % 1_000), more: { note: CANARY } };
  let text = makeEventBody({ id: `evt_${CANARY}_${place}`, order }).toString();
  for (let left = Math.floor(random() * 3); left > 0; left -= 1) text = mutateJson(text);
  return random() < 0.3 ? mutateBytes(Buffer.from(text)) : Buffer.from(text);
}

it(`${SHOTS} mutated bodies of seed ${SEED} that are signed are stored and decided, and no line of the log repeats one`, async () => {
  const { database, pool } = await openTestDatabase({ ends: onTestFinished });
  const receiving = await startReceiving({ url: database.url });
  onTestFinished(() => receiving.close());
  const { applyEvents } = makeLiveApply(pool);
  const verdicts = new Set<string>();
  for (let shots = 0; shots < SHOTS; shots += ROUND_SHOTS) {
    const round = Array.from({ length: ROUND_SHOTS }, (_, place) => makeBody(shots + place));
    const sender = async () => {
      for (let body = round.pop(); body !== undefined; body = round.pop()) {
        // An empty body cannot be an event.
        expect((await post(receiving.port, body)).status).toBe(body.length === 0 ? 400 : 200);
      }
    };
    await Promise.all(Array.from({ length: SENDERS }, sender));
    const pending = async () => (await pool.query<{ seq: string }>("select seq from mirror.pending")).rows;
    const decisions = await applyEvents((await pending()).map(({ seq }) => Number(seq)));
    for (const { verdict } of decisions) verdicts.add(verdict);
    expect(await pending()).toEqual([]);
    expect(receiving.lines.filter(({ level }) => level === "error")).toEqual([]);
    expect(JSON.stringify(receiving.lines)).not.toContain(CANARY);
    expect("polluted" in {}).toBe(false);
  }
  // If all ended the same way, the fuzzer would exercise one line of code.
  expect([...verdicts]).toEqual(expect.arrayContaining(["applied", "stale", "quarantined"]));
});
