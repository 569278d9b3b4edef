import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import { chooseEventId, listHeaders } from "../../../src/receive/admission.ts";
import { readEventId } from "../../../src/wire/events.ts";

it("lists every value of a header, and treats __proto__ like any other name", () => {
  const pairs = ["Webhook-Id a", "__proto__ x", "webhook-id b", "__PROTO__ y", "constructor z"];
  const headers = listHeaders({ rawHeaders: pairs.flatMap((pair) => pair.split(" ")) });
  expect(Object.entries(headers)).toEqual([
    ["webhook-id", ["a", "b"]],
    ["__proto__", ["x", "y"]],
    ["constructor", ["z"]],
  ]);
  expect(headers["toString"]).toBeUndefined();
  expect(Object.getPrototypeOf(headers)).toBeNull();
});

const hashOf = (body: Buffer) => createHash("sha256").update(body).digest();
function choose(content: string | Uint8Array, headerId: string | null = "msg_1"): string {
  const body = Buffer.from(content as string);
  return chooseEventId({ bodyId: readEventId(body), bodyHash: hashOf(body), headerId });
}
const withId = (length: number) => JSON.stringify({ id: "x".repeat(length) });
/** Bodies without an id, or with one that is no text, has another length, or could not be stored unchanged. */
const UNUSABLE = [
  ["null", "17", '"evt_1"', "[]", '[{"id":"a"}]', "{}", '{"id":null}', '{"id":7}', '{"id":{}}', "", "{"],
  ['{"__proto__":{"id":"evt_1"}}', withId(0), withId(256), '{"id":"a\\u0000b"}', '{"id":"a\\ud800b"}'],
].flat();

it.each([
  ['{"id":"evt_1"}', "evt_1"],
  ['{"data":{"id":"inner"},"id":"evt_1"}', "evt_1"],
  // The last, as apply does.
  ['{"id":"first","id":"last"}', "last"],
  [withId(1), "x"],
  [withId(255), "x".repeat(255)],
  ['{"id":"a\\ud83d\\ude00b"}', "a😀b"],
  ...UNUSABLE.map((body) => [body, "msg_1"]),
])("stores the body %s under the key %s", (body, key) => {
  expect(choose(body)).toBe(key);
});

it.each([null, "", "x".repeat(256)])("uses the hash of the body when the header's id is %s", (headerId) => {
  expect(choose("{}", headerId)).toBe(`sha256:${hashOf(Buffer.from("{}")).toString("hex")}`);
});
