import { makeFieldReader } from "../field.ts";
import { unquote } from "../place.ts";
import type { TemplateScheme } from "../scheme.ts";
import type { Candidate, RequestField } from "./candidates.ts";

/** A way to split the field that carries the signature into parts. */
export interface Layout {
  readonly field: RequestField;
  readonly lead: string;
  readonly separator: TemplateScheme["separator"];
}

/** How a field is written around one signature: what `makeFieldReader` needs. */
export type Surroundings = Pick<TemplateScheme, "lead" | "separator" | "prefix" | "prefixOn">;

const SEPARATORS = [",", ";", " ", ":", "&", "|", "."] as const;
/** `HMAC `, `Signature `: a word of authentication in front of everything. */
const LEAD = /^[A-Za-z][A-Za-z0-9_-]{0,30} (?=\S)/;
const LABEL = /^([A-Za-z][A-Za-z0-9_.-]{0,30}[=:])(.*)$/s;
/** Digits that change with each request do not belong to a fixed prefix. */
const PREFIX = /^(?!.*\d{5})[\x20-\x7e]{0,32}$/;

export function listLayouts(candidates: readonly Candidate[]): Layout[] {
  const fields = new Set(candidates.map(({ field }) => field));
  return [...fields].flatMap((field) =>
    SEPARATORS.filter((separator) => field.text.includes(separator)).flatMap((separator) => {
      const lead = LEAD.exec(field.text)?.[0];
      const plain = { field, lead: "", separator };
      return lead === undefined || separator === " " ? [plain] : [{ field, lead, separator }, plain];
    }),
  );
}

/** The parts of a field, by their label, or by their number where they have none. */
export function listParts({ field, lead, separator }: Layout): { part: string | number; text: string }[] {
  const parts = field.text
    .slice(lead.length)
    .split(separator)
    .map((part) => part.trim());
  return parts.flatMap((part, index): { part: string | number; text: string }[] => {
    const [, label, text] = LABEL.exec(part) ?? [];
    if (label !== undefined && text !== undefined) return [{ part: label, text: unquote(text) }];
    return index < 9 ? [{ part: index + 1, text: unquote(part) }] : [];
  });
}

/**
 * What can surround the signature, derived from the field: with the parts of `layout`, or any. Those that read the most
 * signatures of that length come first, because a sender that rotates its secret sends several.
 */
export function listSurroundings(candidate: Candidate, layout: Layout | undefined): Surroundings[] {
  const found: Surroundings[] = [];
  const { field, start, end } = candidate;
  if (!layout) {
    const [before, after] = [field.text.slice(0, start), field.text.slice(end)];
    const quoted = before.endsWith('"') && after.startsWith('"');
    const prefix = quoted ? before.slice(0, -1) : before;
    if (after === (quoted ? '"' : "") && PREFIX.test(prefix))
      found.push({ lead: "", separator: "", prefix, prefixOn: "each" });
  }
  for (const each of layout ? [layout] : listLayouts([candidate])) {
    const cut = cutAround(candidate, each);
    if (cut) found.push(cut);
  }
  const counted = found.map((each) => ({ each, count: countSignatures(candidate, each) }));
  return counted.sort((a, b) => b.count - a.count).map(({ each }) => each);
}

function cutAround(candidate: Candidate, { field, lead, separator }: Layout): Surroundings | undefined {
  const { start, end } = candidate;
  if (start < lead.length) return undefined;
  const before = field.text.slice(lead.length, start);
  const after = field.text.slice(end).replace(/^"/, "").trimStart();
  if (after !== "" && !after.startsWith(separator)) return undefined;
  const prefix = before
    .slice(before.lastIndexOf(separator) + 1)
    .trimStart()
    .replace(/"$/, "");
  if (!PREFIX.test(prefix)) return undefined;
  const each = { lead, separator, prefix, prefixOn: "each" } as const;
  const first = { ...each, prefixOn: "first" } as const;
  const prefersFirst = prefix !== "" && countSignatures(candidate, first) > countSignatures(candidate, each);
  return prefersFirst ? first : each;
}

/** How many signatures of this length the field has, read that way. */
function countSignatures({ field, bytes, encoding }: Candidate, surroundings: Surroundings): number {
  const fits = (length: number) => length === bytes.length;
  const options = { fits, labels: [], signaturesMax: Infinity };
  if (!field.text.startsWith(surroundings.lead)) return 0;
  const read = makeFieldReader({ ...surroundings, encoding }, options);
  const found = read(field.text.slice(surroundings.lead.length));
  return typeof found === "string" ? 0 : found.signatures.length;
}
