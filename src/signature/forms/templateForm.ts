import type { FormOptions, Reading, ReadRequest, SignatureRefusal, SignedRequest } from "../claim.ts";
import { fieldPlace, makeFieldReader, readSingle } from "../field.ts";
import { queryWithout, readPlace } from "../place.ts";
import type { Place } from "../place.ts";
import { algorithmOf } from "../scheme.ts";
import type { TemplateScheme } from "../scheme.ts";
import {
  endsAtBody,
  fillTemplate,
  FORM_TYPE,
  findDelimiter,
  hasForm,
  hasName,
  parseTemplate,
} from "../template.ts";
import type { TemplatePart, ValueName } from "../template.ts";
import { findTimeProblem, parseSeconds } from "../timestamp.ts";

const VALUE_LENGTH_MAX = 1_024;
const ID_LENGTH_MAX = 256;
/** Node passes headers byte by byte; a wider character would be truncated to one byte when it is signed. */
const VALUE_CHARACTERS = /^[\x20-\x7e\x80-\xff]*$/;
const BRACE = 0x7b;

type ReadText = (
  request: SignedRequest,
  fieldParts: readonly string[],
) => { readonly text: string } | SignatureRefusal;

/** Signatures over a template that is filled in from the request. */
export function readTemplate(scheme: TemplateScheme, { url, signaturesMax }: FormOptions): ReadRequest {
  const { parts } = parseTemplate(scheme.signed);
  const sources = parts.map((part) => sourceOf(scheme, part));
  const labels = sources.flatMap((source) => (source && "part" in source.place ? [source.place.part] : []));
  const readField = makeFieldReader(scheme, { fits: algorithmOf(scheme).fits, labels, signaturesMax });
  const place = fieldPlace(scheme);
  const constants = splitUrl(url);
  const readers = parts.map((_, index) => makeTextReader(scheme, { parts, index, constants }));
  const [idAt, timeAt] = ["id", "timestamp"].map((kind) =>
    sources.findIndex((source) => source?.kind === kind),
  );
  const needsBrace = endsAtBody(parts);
  const needsForm = signsForm(scheme);

  return (request): Reading => {
    const field = readSingle(place, request, scheme.lead);
    if (typeof field === "string") return field;
    const found = readField(field.text);
    if (typeof found === "string") return found;
    if (needsBrace && request.body[0] !== BRACE) return "value_malformed";
    // The same bytes must not be read as JSON, whose fields were not signed.
    if (needsForm && !FORM_TYPE.test(request.headersDistinct["content-type"]?.[0] ?? ""))
      return "body_mismatch";
    const texts: string[] = [];
    for (const read of readers) {
      const value = read(request, found.parts);
      if (typeof value === "string") return value;
      texts.push(value.text);
    }
    const claims = [{ signed: fillTemplate(parts, texts, request.body), signatures: found.signatures }];
    const signedAt = parseSeconds(texts[timeAt ?? -1] ?? "", scheme.timestamp?.unit ?? "s");
    return { claims, id: texts[idAt ?? -1] ?? null, signedAt };
  };
}

interface Source {
  readonly kind: "value" | "id" | "timestamp";
  readonly place: Place;
}

/** Where the request holds the text of a part; undefined for what it does not hold as one value. */
export function sourceOf({ idHeader, timestamp }: TemplateScheme, part: TemplatePart): Source | undefined {
  if ("place" in part) return { kind: "value", place: part.place };
  if (!("name" in part)) return undefined;
  if (part.name === "id" && idHeader !== null) return { kind: "id", place: { header: idHeader } };
  return part.name === "timestamp" && timestamp ? { kind: "timestamp", place: timestamp } : undefined;
}

/** The address, and the part of it after the host. */
export function splitUrl(url: string | undefined): Partial<Record<ValueName, string>> {
  if (url === undefined) return {};
  const path = /^[a-z]+:\/\/[^/?]*(.*)$/i.exec(url)?.[1] ?? url;
  return { url, path: path === "" ? "/" : path };
}

function makeTextReader(
  scheme: TemplateScheme,
  context: {
    parts: readonly TemplatePart[];
    index: number;
    constants: Partial<Record<ValueName, string>>;
  },
): ReadText {
  const { parts, index, constants } = context;
  const part = parts[index];
  const delimiter = findDelimiter(parts, index, constants) ?? "";
  const isSignable = (text: string, lengthMax: number) =>
    (delimiter === "" || !text.includes(delimiter)) &&
    text.length <= lengthMax &&
    VALUE_CHARACTERS.test(text);
  const source = part && sourceOf(scheme, part);
  if (source) {
    const { kind, place } = source;
    const findProblem = (text: string, nowSeconds: number) => {
      if (kind === "timestamp") return findTimeProblem(text, { ...timing(scheme), nowSeconds });
      const isFine = text !== "" && isSignable(text, kind === "id" ? ID_LENGTH_MAX : VALUE_LENGTH_MAX);
      return isFine ? undefined : (`${kind}_malformed` as const);
    };
    return (request, fieldParts) => {
      const [text, ...others] = readPlace(place, request, fieldParts);
      if (text === undefined) return `${kind}_missing`;
      // The text is signed as received.
      return others.length > 0 ? `${kind}_repeated` : (findProblem(text, request.nowSeconds) ?? { text });
    };
  }
  const name = part && "name" in part ? part.name : undefined;
  if (name === "query") {
    return ({ query }) => {
      const text = queryWithout(query, scheme.query);
      return isSignable(text, VALUE_LENGTH_MAX) ? { text } : "value_malformed";
    };
  }
  const constant = { text: (name && constants[name]) ?? "" };
  return () => constant;
}

function timing({ timestamp, toleranceSeconds }: TemplateScheme) {
  return { unit: timestamp?.unit ?? "s", toleranceSeconds };
}

/** Whether the scheme needs the address of the endpoint, as the sender has it. */
export function templateNeedsUrl({ signed }: TemplateScheme): boolean {
  return hasName(parseTemplate(signed).parts, "url", "path");
}

/** Whether the scheme signs the fields of a form instead of the body's bytes. */
export function signsForm({ signed }: TemplateScheme): boolean {
  return hasForm(parseTemplate(signed).parts);
}
