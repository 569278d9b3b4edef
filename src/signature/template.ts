import type { Chunk } from "./algorithms.ts";

/** The event's id, the time of signing, and the configured address. */
const NAMES = ["id", "timestamp", "url"] as const;
type ValueName = (typeof NAMES)[number];

export type TemplatePart =
  | { readonly literal: string }
  | { readonly name: ValueName }
  /** The body, unchanged. */
  | { readonly body: true };

const TOKEN = /\{([^{}]*)\}|([^{}]+)|([{}])/g;
const KNOWN = "{id}, {timestamp}, {url}, {body}";
/** Literals are signed byte by byte, so they must not depend on an encoding. */
const SIGNABLE = /^[\x20-\x7e\n\r\t]*$/;

/**
 * Splits a template such as `{id}.{timestamp}.{body}` into its parts, and lists what makes it unsafe: with a missing
 * brace or a misspelt name, a constant would be signed and every forged body would verify.
 */
export function parseTemplate(template: string): { parts: TemplatePart[]; problems: string[] } {
  const parts: TemplatePart[] = [];
  const problems: string[] = [];
  for (const [, token, literal, brace] of template.matchAll(TOKEN)) {
    if (brace !== undefined) problems.push(`has a stray "${brace}"`);
    else if (literal !== undefined) parts.push({ literal });
    else {
      const name = NAMES.find((each) => each === token);
      if (name) parts.push({ name });
      else if (token === "body") parts.push({ body: true });
      else problems.push(`has the unknown placeholder {${token ?? ""}}; known are ${KNOWN}`);
    }
  }
  if (!SIGNABLE.test(template)) problems.push("may hold printable ASCII and line breaks only");
  const bodies = parts.filter((part) => "body" in part).length;
  if (bodies !== 1) problems.push(`must hold {body} exactly once, not ${bodies} times`);
  for (const [index, part] of parts.entries()) {
    if (isFree(part) && findDelimiter(parts, index, "") === null)
      problems.push(`has value ${index + 1} where nothing tells it from its neighbour`);
  }
  return { parts, problems };
}

export function hasName(parts: readonly TemplatePart[], name: ValueName): boolean {
  return parts.some((part) => "name" in part && part.name === name);
}

/** A value of any length that the request chooses. Not the time of signing: the tolerance leaves it only one form. */
function isFree(part: TemplatePart | undefined): boolean {
  return part !== undefined && "name" in part && part.name === "id";
}

/**
 * Text that the value must not contain, because it ends the value in the signed bytes. Otherwise `a.1`, and `a` with
 * the rest moved into what follows, would sign the same bytes. Undefined: nothing is needed. Null: nothing ends the
 * value.
 *
 * A value before a body is delimited by what follows it, a value after a body by what precedes it, because a body may
 * contain any text. Directly before a body, the body's own `{` ends a value.
 */
export function findDelimiter(
  parts: readonly TemplatePart[],
  index: number,
  url: string | undefined,
): string | undefined | null {
  const bodyAt = parts.findIndex((part) => "body" in part);
  const isBehind = bodyAt !== -1 && bodyAt < index;
  const neighbour = parts[isBehind ? index - 1 : index + 1];
  if (!neighbour) return undefined;
  if ("literal" in neighbour) return isBehind ? neighbour.literal.at(-1) : neighbour.literal[0];
  if ("body" in neighbour) return isBehind ? null : "{";
  if (isFree(neighbour)) return null;
  return "name" in neighbour && neighbour.name === "url" ? url : undefined;
}

/** True where the body's own `{` ends the value before it: then the body must begin with it. */
export function endsAtBody(parts: readonly TemplatePart[]): boolean {
  return parts.some((part, index) => isFree(part) && findDelimiter(parts, index, "") === "{");
}

/** The signed bytes in pieces; `texts` holds the value of each part that is neither literal nor body. */
export function fillTemplate(
  parts: readonly TemplatePart[],
  texts: readonly string[],
  body: Buffer,
): Chunk[] {
  return parts.map((part, index) => {
    if ("literal" in part) return part.literal;
    return "body" in part ? body : (texts[index] ?? "");
  });
}
