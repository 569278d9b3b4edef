import { rawMember, withoutMember } from "../wire/rawJson.ts";

/**
 * `object`, the text of a JSON object, with `request_id` as its last member, replacing an existing one. In two parts, so
 * that a page is not copied.
 *
 * Works on the text, so that an order stays as the provider wrote it: `JSON.parse` and `JSON.stringify` would change
 * the digits of long numbers and the order of fields.
 */
export function withRequestId(object: string, requestId: string): [string, string] {
  const stamp = JSON.stringify(requestId);
  // Looking for the member scans the text; most texts, above all a page of 200 orders, do not even contain the word.
  const has = object.includes('"request_id"') && rawMember(object, "request_id") !== undefined;
  const plain = has ? withoutMember(object, "request_id") : object;
  const body = plain.trimEnd().slice(0, -1).trimEnd();
  return [body, `${body === "{" ? "" : ","}"request_id":${stamp}}`];
}
