import { rawMember, withoutMember } from "../wire/rawJson.ts";

/**
 * `object`, the text of a JSON object without a `request_id`, with one as its last member. In two parts, so that a page is
 * not copied; and nothing looks for an existing one, because that scans the page.
 *
 * Works on the text, so that an order stays as the provider wrote it: `JSON.parse` and `JSON.stringify` would change
 * the digits of long numbers and the order of fields.
 */
export function withRequestId(object: string, requestId: string): [string, string] {
  const stamp = JSON.stringify(requestId);
  const body = object.trimEnd().slice(0, -1).trimEnd();
  return [body, `${body === "{" ? "" : ","}"request_id":${stamp}}`];
}

/** The text of a provider's JSON object without its own `request_id`. */
export function withoutRequestId(object: string): string {
  // Most do not even contain the word.
  const has = object.includes('"request_id"') && rawMember(object, "request_id") !== undefined;
  return has ? withoutMember(object, "request_id") : object;
}
