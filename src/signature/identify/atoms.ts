import { hash } from "node:crypto";
import type { Place } from "../place.ts";
import { parseSeconds } from "../timestamp.ts";
import type { TimestampUnit } from "../timestamp.ts";
import { FORM_TYPE, joinForm } from "../template.ts";
import type { Candidate, CapturedRequest, RequestField } from "./candidates.ts";
import { queryOf } from "./candidates.ts";
import type { Layout } from "./layout.ts";
import { listParts } from "./layout.ts";

/** Something that a sender may have put into the signed text. */
export interface Atom {
  readonly text: string;
  /** Its name in a template; for a time and an id, the place is more specific. */
  readonly token: string;
  readonly place?: Place;
  readonly kind: "time" | "id" | "value" | "fixed";
  readonly unit?: TimestampUnit;
  /** For a part of the signature's field: how that field is split. */
  readonly layout?: Layout;
  /** Lower values are likelier. */
  readonly rank: number;
}

/** The body, or a text that holds a hash of it; `text` null: the body itself. */
export interface BodyAtom {
  readonly text: string | null;
  readonly token: string;
}

const SIGNED_HASHES = ["sha256", "sha512"] as const;
const ID_NAME = /(^|[-_])id$/;
const LIKELY_NAME =
  /nonce|key|event|topic|delivery|request|message|salt|version|type|time|date|user|client|account|merchant/;
/** Rarely signed: everything that a client or a proxy adds automatically. */
const TRANSPORT_NAME =
  /^(?:accept|content-|user-agent$|connection$|host$|transfer-|via$|forwarded|x-forwarded|x-real-ip|cookie|cache-|te$|trace|baggage|cf-|sec-)/;
const TEXT_LENGTH_MAX = 512;
/** From 2001 to 2100: other long numbers are not times. */
const SECONDS_MIN = 978_307_200;
const SECONDS_MAX = 4_102_444_800;

/** Everything that the request holds in addition to its body, the likeliest first. */
export function listAtoms(
  request: CapturedRequest,
  context: {
    fields: readonly RequestField[];
    candidates: readonly Candidate[];
    layouts: readonly Layout[];
    url: string | undefined;
  },
): Atom[] {
  const { fields, candidates, layouts, url } = context;
  const signatures = new Set(candidates.map(({ field, start, end }) => field.text.slice(start, end)));
  const holders = new Set(candidates.map(({ field }) => field));
  const atoms: Atom[] = [];
  for (const field of fields) {
    const { place, text } = field;
    const name = "header" in place ? place.header : place.query;
    if (text === "" || text.length > TEXT_LENGTH_MAX || (holders.has(field) && signatures.has(text)))
      continue;
    atoms.push(placeAtom(place, text, rankOf(name)));
  }
  for (const layout of layouts) {
    const parts = listParts(layout);
    const isLabelled = parts.some(({ part }) => typeof part === "string");
    for (const { part, text } of parts) {
      // Among labelled parts, one without a label is mostly a piece of a value, such as the minutes of a time.
      const rank = isLabelled && typeof part === "number" ? 6 : 1;
      if (text !== "" && !signatures.has(text)) atoms.push({ ...placeAtom({ part }, text, rank), layout });
    }
  }
  for (const text of [...holders].flatMap(listVersions))
    atoms.push({ text, token: text, kind: "fixed", rank: 3 });
  atoms.push({ text: "POST", token: "POST", kind: "fixed", rank: 4 }, ...listAddresses(request, url));
  const seen = new Set<string>();
  const once = atoms.filter((atom) => {
    const key = `${atom.token} ${atom.text} ${JSON.stringify(atom.place ?? null)} ${atom.layout?.separator ?? ""}`;
    return !seen.has(key) && seen.add(key);
  });
  return once.sort((a, b) => a.rank - b.rank);
}

/** The body as it is, hashes of it, and texts that hold such a hash: a parameter of the address, a header. */
export function listBodies({ body, headersDistinct }: CapturedRequest, atoms: readonly Atom[]): BodyAtom[] {
  const hashes = SIGNED_HASHES.flatMap((name) =>
    (["hex", "base64"] as const).map((encoding) => ({
      text: hash(name, body, encoding),
      token: `{body:${name}:${encoding}}`,
    })),
  );
  const holders = atoms.flatMap(({ text, token, place }) =>
    hashes
      .filter((each) => text.includes(each.text) && text !== each.text)
      .flatMap((each) => {
        const isQuery = token.endsWith("{query}");
        if (place && !("header" in place)) return [];
        // Everything around the hash is assumed to be fixed: the address is configured, the rest is a name.
        const around = text.replace(each.text, each.token);
        if (!isQuery) return [{ text, token: around }];
        const [base = ""] = token.split("{query}");
        return [{ text, token: base + around.slice(around.indexOf("?")) }];
      }),
  );
  const type = headersDistinct["content-type"]?.[0] ?? "";
  const form = FORM_TYPE.test(type) ? [{ text: joinForm(body), token: "{form}" }] : [];
  return [{ text: null, token: "{body}" }, ...form, ...holders, ...hashes];
}

function placeAtom(place: Place, text: string, rank: number): Atom {
  const unit = unitOf(text);
  const [[kind, name] = ["", ""]] = Object.entries(place);
  const token = `{${kind}:${name}}`;
  if (unit) return { text, token, place, kind: "time", unit, rank: 0 };
  const isId = "header" in place && ID_NAME.test(place.header);
  return { text, token, place, kind: isId ? "id" : "value", rank: isId ? Math.min(rank, 1) : rank };
}

function rankOf(name: string): number {
  if (TRANSPORT_NAME.test(name)) return 8;
  return ID_NAME.test(name) ? 1 : LIKELY_NAME.test(name) ? 2 : 5;
}

/** The unit in which the text is a time of this century; undefined when there is none. */
function unitOf(text: string): TimestampUnit | undefined {
  return (["s", "ms", "iso", "http"] as const).find((unit) => {
    const seconds = parseSeconds(text, unit);
    return seconds !== undefined && seconds >= SECONDS_MIN && seconds <= SECONDS_MAX;
  });
}

/** Names before a signature, such as `v0`: some senders sign them, too. */
function listVersions({ text }: RequestField): string[] {
  return [...text.matchAll(/(?:^|[,; ])"?([A-Za-z][A-Za-z0-9-]{0,15})[=:, ]/g)].map(([, name]) => name ?? "");
}

function listAddresses(request: CapturedRequest, url: string | undefined): Atom[] {
  const query = queryOf(request);
  const atoms: Atom[] = [];
  const add = (text: string, token: string) => atoms.push({ text, token, kind: "fixed", rank: 4 });
  if (url !== undefined) {
    add(url, "{url}");
    const path = /^[a-z]+:\/\/[^/?]*(.*)$/i.exec(url)?.[1] ?? "";
    if (path !== "") add(path, "{path}");
    if (query !== "") {
      add(`${url}?${query}`, "{url}{query}");
      add(`${path}?${query}`, "{path}{query}");
    }
  }
  const ownPath = request.target?.split("?")[0];
  if (ownPath !== undefined && ownPath !== "") add(ownPath, ownPath);
  return atoms;
}
