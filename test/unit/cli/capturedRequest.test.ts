import { expect, it } from "vitest";
import { parseCapturedRequest } from "../../../src/cli/input/capturedRequest.ts";

const parse = (text: string) => parseCapturedRequest(Buffer.from(text));

it("reads raw HTTP text, with either line ending and with or without a request line", () => {
  for (const eol of ["\r\n", "\n"]) {
    for (const first of [`POST /webhooks/live HTTP/1.1${eol}`, ""]) {
      const { headersDistinct, body } = parse(
        `${first}Host: shop${eol}X-Sig:  a=b ${eol}${eol}{"ö":1}${eol}${eol}x`,
      );
      expect(headersDistinct).toEqual({ host: ["shop"], "x-sig": ["a=b"] });
      expect(body.toString()).toBe(`{"ö":1}${eol}${eol}x`);
    }
  }
});

it("keeps repeated headers separate", () => {
  expect(parse("x-sig: a\nX-Sig: b\n\n").headersDistinct["x-sig"]).toEqual(["a", "b"]);
});

it("cuts the body at its Content-Length, and keeps one that is shorter or exact", () => {
  expect(parse("content-length: 2\n\nab\n").body.toString()).toBe("ab");
  expect(parse("content-length: 2\n\nab").body.toString()).toBe("ab");
  expect(parse("content-length: 3\n\nab").body.toString()).toBe("ab");
});

it("keeps bytes that are not text", () => {
  const body = Buffer.from([0xff, 0x00, 0xc3]);
  expect(parseCapturedRequest(Buffer.concat([Buffer.from("a: b\r\n\r\n"), body])).body).toEqual(body);
});

it("reads JSON with the body as text or as base64", () => {
  const headers = { "X-Sig": "a", Other: ["b", "c"] };
  const expected = { headersDistinct: { "x-sig": ["a"], other: ["b", "c"] }, body: Buffer.from('{"a":1}') };
  expect(parse(JSON.stringify({ headers, body: '{"a":1}' }))).toEqual(expected);
  expect(parse(JSON.stringify({ headers, bodyBase64: btoa('{"a":1}') }))).toEqual(expected);
});

it("refuses a body that was already parsed, and explains why", () => {
  expect(() => parse('{"headers":{},"body":{"a":1}}')).toThrow("its original bytes");
});

it.each(["", "not a header\n\n", "{", "a: b", '{"headers":{}}', '{"headers":{},"body":"","bodyBase64":""}'])(
  "refuses %j",
  (text) => {
    expect(() => parse(text)).toThrow("The captured request");
  },
);
