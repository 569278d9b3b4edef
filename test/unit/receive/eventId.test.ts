import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { deliveryEvents } from "../../../src/wire/events.ts";
import { chooseEventId } from "../../../src/receive/admit.ts";

function choose(content: string | Uint8Array, headerId: string | null = "msg_1"): string {
  const body = Buffer.from(content as string);
  return chooseEventId({
    bodyId: deliveryEvents.readEventId(body),
    bodyHash: createHash("sha256").update(body).digest(),
    headerId,
  });
}

describe("chooseEventId", () => {
  it("uses the envelope's id, even when the header has another one", () => {
    expect(choose('{"id":"evt_1"}')).toBe("evt_1");
    expect(choose('{"data":{"id":"inner"},"id":"evt_1"}')).toBe("evt_1");
  });

  it("uses the last of two ids, as apply does", () => {
    expect(choose('{"id":"first","id":"last"}')).toBe("last");
  });

  it.each([
    "null",
    "17",
    '"evt_1"',
    "[]",
    '[{"id":"a"}]',
    "{}",
    '{"id":null}',
    '{"id":7}',
    '{"id":{}}',
    "",
    "{",
  ])("takes the header's id for the body %s", (body) => {
    expect(choose(body)).toBe("msg_1");
  });

  it("is not fooled by a prototype in the body", () => {
    expect(choose('{"__proto__":{"id":"evt_1"}}')).toBe("msg_1");
  });

  it("accepts an id of 1 to 255 characters, and none of 0 or 256", () => {
    const idOf = (length: number) => choose(JSON.stringify({ id: "x".repeat(length) }));
    expect([0, 1, 255, 256].map((length) => idOf(length).length)).toEqual([5, 1, 255, 5]);
  });

  it("accepts no id that Postgres could not store unchanged", () => {
    expect(choose('{"id":"a\\u0000b"}')).toBe("msg_1");
    expect(choose('{"id":"a\\ud800b"}')).toBe("msg_1");
    expect(choose('{"id":"a\\ud83d\\ude00b"}')).toBe("a😀b");
  });

  it("falls back to the hash when the header's id is not a valid key either", () => {
    const hash = `sha256:${createHash("sha256").update("{}").digest("hex")}`;
    expect(choose("{}", null)).toBe(hash);
    expect(choose("{}", "")).toBe(hash);
    expect(choose("{}", "x".repeat(256))).toBe(hash);
  });

  // Of any UTF-16 code units, including half pairs. The unit "binary" takes a second of CPU to build.
  const anyText = fc.string({
    unit: fc.nat(0xffff).map((unit) => String.fromCharCode(unit)),
    maxLength: 300,
  });

  it("finds a storable key for any bytes", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array({ maxLength: 300 }),
          fc.json(),
          anyText.map((id) => JSON.stringify({ id })),
        ),
        fc.option(anyText),
        (content, headerId) => {
          const id = choose(content, headerId);
          expect(id.length).toBeGreaterThanOrEqual(1);
          expect(id.length).toBeLessThanOrEqual(255);
          expect(id).not.toContain("\0");
          expect(Buffer.from(id, "utf8").toString("utf8")).toBe(id);
        },
      ),
      { numRuns: 60 },
    );
  });
});
