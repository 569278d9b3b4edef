import type { SignatureRefusal, Seal, SignedRequest } from "../claim.ts";
import { readPlace } from "../place.ts";
import type { Place } from "../place.ts";
import type { ValueName } from "../template.ts";

export interface FormOptions {
  /** The public address of the endpoint, as the sender has it. */
  readonly url?: string | undefined;
  readonly signaturesMax?: number | undefined;
}

interface FieldOwner {
  readonly header: string | null;
  readonly query: string | null;
}

/** Place of the signature or the token. */
export function fieldPlace({ header, query }: FieldOwner): Place {
  return header === null ? { query: query ?? "" } : { header };
}

/** The only value there; two values prove nothing, even if one of them is right. */
export function readSingle(
  place: Place,
  request: SignedRequest,
): { readonly text: string } | SignatureRefusal {
  const values = readPlace(place, request);
  const [text] = values;
  if (text === undefined) return "signature_missing";
  return values.length > 1 ? "signature_repeated" : { text };
}

/** Puts the field and the other values into headers and parameters. */
export function sealField(
  owner: FieldOwner,
  { text, texts = new Map<Place, string>() }: { text: string; texts?: ReadonlyMap<Place, string> },
): Seal {
  const headers: Record<string, string> = {};
  const pairs: string[] = [];
  for (const [place, value] of new Map([...texts, [fieldPlace(owner), text] as const])) {
    if ("header" in place) headers[place.header] = value;
    else if ("query" in place) pairs.push(`${place.query}=${encodeURIComponent(value)}`);
  }
  return { headers, query: pairs.join("&") };
}

/** The address, and the part of it after the host. */
export function splitUrl(url: string | undefined): Partial<Record<ValueName, string>> {
  if (url === undefined) return {};
  const path = /^[a-z]+:\/\/[^/?]*(.*)$/i.exec(url)?.[1] ?? url;
  return { url, path: path === "" ? "/" : path };
}
