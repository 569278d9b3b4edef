import { hash as hashOf } from "node:crypto";
import { ENCODINGS, type Chunk, type Encoding } from "./algorithms.ts";

/** The event's id and the time of signing; the configured address, whole and from its path. */
const NAMES = ["id", "timestamp", "url", "path"] as const;
export type ValueName = (typeof NAMES)[number];

const BODY_HASHES = ["sha256", "sha384", "sha512"] as const;
interface BodyHash {
  readonly hash: (typeof BODY_HASHES)[number];
  readonly encoding: Encoding;
}

export type TemplatePart =
  | { readonly literal: string }
  | { readonly name: ValueName }
  | { readonly header: string }
  /** The body, unchanged or as a hash. */
  | { readonly body: "raw" | BodyHash };

const TOKEN = /\{([^{}]*)\}|([^{}]+)|([{}])/g;
const KNOWN = "{id}, {timestamp}, {url}, {path}, {header:NAME}, {body}, {body:sha256:hex}";
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9a-z-]{1,64}$/;
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
      const part = parsePlaceholder(token ?? "");
      if (part) parts.push(part);
      else problems.push(`has the unknown placeholder {${token ?? ""}}; known are ${KNOWN}`);
    }
  }
  if (!SIGNABLE.test(template)) problems.push("may hold printable ASCII and line breaks only");
  const bodies = parts.filter((part) => "body" in part).length;
  if (bodies !== 1) problems.push(`must hold {body} exactly once, not ${bodies} times`);
  for (const [index, part] of parts.entries()) {
    if (isFree(part) && findDelimiter(parts, index, {}) === null)
      problems.push(`has value ${index + 1} where nothing tells it from its neighbour`);
  }
  return { parts, problems };
}

function parsePlaceholder(token: string): TemplatePart | undefined {
  const name = NAMES.find((each) => each === token);
  if (name) return { name };
  if (token === "body") return { body: "raw" };
  const [kind, first = "", second = "", ...rest] = token.split(":");
  if (kind === "header" && second === "" && HEADER_NAME.test(first.toLowerCase()))
    return { header: first.toLowerCase() };
  const hash = BODY_HASHES.find((each) => each === first);
  const encoding = ENCODINGS.find((each) => each === second);
  return kind === "body" && hash && encoding && rest.length === 0 ? { body: { hash, encoding } } : undefined;
}

export function hasName(parts: readonly TemplatePart[], ...names: readonly ValueName[]): boolean {
  return parts.some((part) => "name" in part && names.includes(part.name));
}

/** A value of any length that the request chooses. Not the time of signing: the tolerance leaves it only one form. */
function isFree(part: TemplatePart | undefined): boolean {
  return part !== undefined && ("header" in part || ("name" in part && part.name === "id"));
}

/**
 * Text that the value must not contain, because it ends the value in the signed bytes. Otherwise `a.1`, and `a` with the
 * rest moved into what follows, would sign the same bytes. Undefined: nothing is needed. Null: nothing ends the value.
 *
 * A value before a body is delimited by what follows it, a value after a body by what precedes it, because a body may
 * contain any text. Directly before a body, the body's own `{` ends a value.
 */
export function findDelimiter(
  parts: readonly TemplatePart[],
  index: number,
  constants: Partial<Record<ValueName, string>>,
): string | undefined | null {
  const bodyAt = parts.findIndex((part) => "body" in part && part.body === "raw");
  const isBehind = bodyAt !== -1 && bodyAt < index;
  const neighbour = parts[isBehind ? index - 1 : index + 1];
  if (!neighbour) return undefined;
  if ("literal" in neighbour) return isBehind ? neighbour.literal.at(-1) : neighbour.literal[0];
  if ("body" in neighbour) {
    if (neighbour.body !== "raw") return undefined;
    return isBehind ? null : "{";
  }
  if (isFree(neighbour) || !("name" in neighbour)) return null;
  return neighbour.name === "timestamp" ? undefined : constants[neighbour.name];
}

/** True where the body's own `{` ends the value before it: then the body must begin with it. */
export function endsAtBody(parts: readonly TemplatePart[]): boolean {
  return parts.some((part, index) => {
    const next = parts[index + 1];
    return isFree(part) && next !== undefined && "body" in next && next.body === "raw";
  });
}

/** The signed bytes; `texts` holds the value of each part that is neither literal nor body. */
export function fillTemplate(
  parts: readonly TemplatePart[],
  texts: readonly string[],
  body: Buffer,
): Chunk[] {
  const chunks: Chunk[] = [];
  let text = "";
  for (const [index, part] of parts.entries()) {
    if ("literal" in part) text += part.literal;
    else if (!("body" in part)) text += texts[index] ?? "";
    else if (part.body === "raw") {
      if (text !== "") chunks.push(text);
      chunks.push(body);
      text = "";
    } else text += hashOf(part.body.hash, body, part.body.encoding);
  }
  if (text !== "" || chunks.length === 0) chunks.push(text);
  return chunks;
}
