import { tryDecode } from "../domain/parseJson.ts";
import type { SignedRequest } from "./claim.ts";

/** Place of a value in a request: a header, a parameter of the address, or a part of the signature's own field. */
export type Place =
  | { readonly header: string }
  | { readonly query: string }
  /** The text that the part starts with, such as `t=`, or its number, from 1. */
  | { readonly part: string | number };

/** Every value in that place; none when it is missing. */
export function readPlace(
  place: Place,
  { headersDistinct, query }: Pick<SignedRequest, "headersDistinct" | "query">,
  parts: readonly string[] = [],
): readonly string[] {
  if ("header" in place) return headersDistinct[place.header] ?? [];
  if ("query" in place)
    return listParameters(query).flatMap(([name, value]) => (name === place.query ? [value] : []));
  const { part } = place;
  if (typeof part === "number") return parts.slice(part - 1, part).map(unquote);
  return parts.filter((each) => each.startsWith(part)).map((each) => unquote(each.slice(part.length)));
}

/** Names and values of a query, in order. `+` is kept: base64 contains it, and senders often do not encode it. */
export function listParameters(query: string | undefined): [name: string, value: string][] {
  if (query === undefined || query === "") return [];
  return query.split("&").map((pair) => {
    const at = pair.indexOf("=");
    const [name, value] = at === -1 ? [pair, ""] : [pair.slice(0, at), pair.slice(at + 1)];
    return [decode(name), decode(value)];
  });
}

/** The query with its `?`, without the parameter that carries the signature; "" when nothing is left. */
export function queryWithout(query: string | undefined, parameter: string | null): string {
  const pairs = (query ?? "")
    .split("&")
    .filter((pair) => pair !== "" && (parameter === null || decode(pair.split("=")[0] ?? "") !== parameter));
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}

export function unquote(text: string): string {
  return text.length >= 2 && text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text;
}

const decode = (text: string) => tryDecode(text) ?? text;
