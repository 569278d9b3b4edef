import type {
  Draft,
  Reading,
  ReadRequest,
  SignatureRefusal,
  Signable,
  SignedRequest,
  WriteRequest,
} from "../claim.ts";
import { makeFieldReader } from "../field.ts";
import { queryWithout, readPlace } from "../place.ts";
import type { Place } from "../place.ts";
import { algorithmOf } from "../scheme.ts";
import type { TemplateScheme } from "../scheme.ts";
import { endsAtBody, fillTemplate, findDelimiter, hasName, listPlaces, parseTemplate } from "../template.ts";
import type { TemplatePart, ValueName } from "../template.ts";
import { findTimeProblem, formatTimestamp, parseSeconds } from "../timestamp.ts";
import { fieldPlace, readSingle, sealField, splitUrl } from "./field.ts";
import type { FormOptions } from "./field.ts";

const VALUE_LENGTH_MAX = 1_024;
const ID_LENGTH_MAX = 256;
/** Node passes headers byte by byte; a wider character would be truncated to one byte when it is signed. */
const VALUE_CHARACTERS = /^[\x20-\x7e\x80-\xff]*$/;
const BRACE = 0x7b;

interface Found {
  readonly request: SignedRequest;
  readonly parts: readonly string[];
}

type ReadText = (found: Found) => { readonly text: string } | SignatureRefusal;

/** Signatures over a template that is filled in from the request. */
export function readTemplate(scheme: TemplateScheme, { url, signaturesMax }: FormOptions): ReadRequest {
  const { parts } = parseTemplate(scheme.signed);
  const readField = makeFieldReader(scheme, {
    fits: algorithmOf(scheme).fits,
    labels: listLabels(scheme, parts),
    ...(signaturesMax === undefined ? {} : { signaturesMax }),
  });
  const place = fieldPlace(scheme);
  const constants = splitUrl(url);
  const readers = parts.map((part, index) => makeTextReader(scheme, { parts, part, index, constants }));
  const placeOf = (name: ValueName) => parts.findIndex((part) => "name" in part && part.name === name);
  const [idAt, timeAt] = [placeOf("id"), placeOf("timestamp")];
  const needsBrace = endsAtBody(parts);

  return (request): Reading => {
    const field = readSingle(place, request);
    if (typeof field === "string") return field;
    const found = readField(field.text);
    if (typeof found === "string") return found;
    if (needsBrace && request.body[0] !== BRACE) return "value_malformed";
    const texts: (string | undefined)[] = [];
    for (const read of readers) {
      const value = read?.({ request, parts: found.parts });
      if (typeof value === "string") return value;
      texts.push(value?.text);
    }
    const claims = [{ signed: fillTemplate(parts, texts, request.body), signatures: found.signatures }];
    const signedAt = parseSeconds(texts[timeAt] ?? "", scheme.timestamp?.unit ?? "s");
    return { claims, id: texts[idAt] ?? null, signedAt };
  };
}

/** The counterpart: fills the template, and puts values and signature where the reader looks for them. */
export function writeTemplate(scheme: TemplateScheme, { url }: FormOptions): WriteRequest {
  const { parts } = parseTemplate(scheme.signed);
  const constants = splitUrl(url);
  return (signable): Draft => {
    const texts = new Map<Place, string>();
    const time = formatTimestamp(signable.nowSeconds, scheme.timestamp?.unit ?? "s");
    if (scheme.timestamp !== null) texts.set(scheme.timestamp, time);
    if (scheme.idHeader !== null) texts.set({ header: scheme.idHeader }, signable.id);
    for (const each of listPlaces(parts)) texts.set(each, valueFor(each, signable));
    const values = [...texts].filter(([each]) => "query" in each);
    const query = queryWithout(
      values
        .map(([each, text]) => `${"query" in each ? each.query : ""}=${encodeURIComponent(text)}`)
        .join("&"),
      null,
    );
    const chosen = parts.map((part) => {
      if ("place" in part) return texts.get(part.place);
      if (!("name" in part)) return undefined;
      if (part.name === "timestamp") return time;
      if (part.name === "id") return signable.id;
      return part.name === "query" ? query : constants[part.name];
    });
    return {
      signed: fillTemplate(parts, chosen, signable.body),
      seal: (signature) => sealField(scheme, { text: writeField(scheme, { texts, signature }), texts }),
    };
  };
}

function valueFor(place: Place, { values, id }: Signable): string {
  const [[kind, name] = ["", ""]] = Object.entries(place);
  return values?.[`${kind}:${name}`] ?? id;
}

/** Labelled parts before the signature, numbered parts in their place. */
function writeField(
  { lead, prefix, separator, encoding }: TemplateScheme,
  { texts, signature }: { texts: ReadonlyMap<Place, string>; signature: Buffer },
): string {
  const numbered: string[] = [];
  const labelled: string[] = [];
  for (const [place, text] of texts) {
    if (!("part" in place)) continue;
    if (typeof place.part === "number") numbered[place.part - 1] = text;
    else labelled.push(place.part + text);
  }
  const others = [...labelled, prefix + signature.toString(encoding)];
  // The other parts fill the numbers that no value takes.
  const all: string[] = [];
  for (let at = 0; at < numbered.length || others.length > 0; at += 1)
    all.push(numbered[at] ?? others.shift() ?? "");
  return lead + all.join(separator);
}

function listLabels({ timestamp }: TemplateScheme, parts: readonly TemplatePart[]): (string | number)[] {
  const places: Place[] = [...(timestamp ? [timestamp] : []), ...listPlaces(parts)];
  return places.flatMap((place) => ("part" in place ? [place.part] : []));
}

function makeTextReader(
  scheme: TemplateScheme,
  context: {
    parts: readonly TemplatePart[];
    part: TemplatePart;
    index: number;
    constants: Partial<Record<ValueName, string>>;
  },
): ReadText | undefined {
  const { parts, part, index, constants } = context;
  const delimiter = findDelimiter(parts, index, constants) ?? undefined;
  if ("place" in part)
    return makeValueReader(part.place, { kind: "value", delimiter, lengthMax: VALUE_LENGTH_MAX });
  if (!("name" in part)) return undefined;
  switch (part.name) {
    case "timestamp":
      return makeTimeReader(scheme);
    case "id":
      return makeValueReader(
        { header: scheme.idHeader ?? "" },
        { kind: "id", delimiter, lengthMax: ID_LENGTH_MAX },
      );
    case "query":
      return ({ request }) => {
        const text = queryWithout(request.query, scheme.query);
        return isSignable(text, delimiter, VALUE_LENGTH_MAX) ? { text } : "value_malformed";
      };
    case "url":
    case "path": {
      const text = constants[part.name] ?? "";
      return () => ({ text });
    }
    default: {
      const never: never = part.name;
      return never;
    }
  }
}

function makeTimeReader({ timestamp, toleranceSeconds }: TemplateScheme): ReadText | undefined {
  if (!timestamp) return undefined;
  const { unit } = timestamp;
  // The text is signed as received.
  return makeReader(timestamp, "timestamp", (text, { nowSeconds }) =>
    findTimeProblem(text, { unit, toleranceSeconds, nowSeconds }),
  );
}

function makeValueReader(
  place: Place,
  { kind, delimiter, lengthMax }: { kind: "id" | "value"; delimiter: string | undefined; lengthMax: number },
): ReadText {
  return makeReader(place, kind, (text) =>
    text !== "" && isSignable(text, delimiter, lengthMax) ? undefined : `${kind}_malformed`,
  );
}

/** Reads the only value in a place, unless something is wrong with it. */
function makeReader(
  place: Place,
  kind: "timestamp" | "id" | "value",
  findProblem: (text: string, request: SignedRequest) => SignatureRefusal | undefined,
): ReadText {
  return ({ request, parts }) => {
    const values = readPlace(place, request, parts);
    const [text] = values;
    if (text === undefined) return `${kind}_missing`;
    return values.length > 1 ? `${kind}_repeated` : (findProblem(text, request) ?? { text });
  };
}

function isSignable(text: string, delimiter: string | undefined, lengthMax: number): boolean {
  const cuttable = delimiter !== undefined && delimiter !== "" && text.includes(delimiter);
  return !cuttable && text.length <= lengthMax && VALUE_CHARACTERS.test(text);
}

/** Whether the scheme needs the address of the endpoint, as the sender has it. */
export function templateNeedsUrl({ signed }: TemplateScheme): boolean {
  return hasName(parseTemplate(signed).parts, "url", "path");
}
