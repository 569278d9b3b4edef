import { rawMember, withoutMember } from "../wire/rawJson.ts";

/**
 * `object`, the text of a JSON object, with `request_id` as its last member; one that the object has is replaced.
 *
 * Works on the text: an order passes through as the provider wrote it, with the digits of its long numbers and the order
 * of its fields, which `JSON.parse` and `JSON.stringify` would not keep.
 */
export function withRequestId(object: string, requestId: string): string {
  const stamp = JSON.stringify(requestId);
  // Looking for the member scans the text; most texts, a page of 200 orders above all, do not even hold the word.
  const has = object.includes('"request_id"') && rawMember(object, "request_id") !== undefined;
  const plain = has ? withoutMember(object, "request_id") : object;
  const body = plain.trimEnd().slice(0, -1).trimEnd();
  return `${body}${body === "{" ? "" : ","}"request_id":${stamp}}`;
}
