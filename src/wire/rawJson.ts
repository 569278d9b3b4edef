/** A member of a JSON object: its key decoded, its value as the exact text that stood in the document. */
export interface RawMember {
  readonly key: string;
  readonly raw: string;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const COMMA = 0x2c;
const SPACE = 0x20;

/**
 * The members of a JSON object with the exact text of each value; a repeated key is listed each time.
 *
 * `JSON.parse` and `JSON.stringify` would lose digits of long numbers and the order of number-like keys; a mirror
 * returns what it was given. `text` must be an object that `JSON.parse` has accepted: the scan relies on it.
 * @internal
 */
export function rawMembers(text: string): RawMember[] {
  const members: RawMember[] = [];
  let at = skipSpace(text, text.indexOf("{") + 1);
  while (text.charCodeAt(at) !== CLOSE_BRACE) {
    const keyEnd = endOfValue(text, at);
    const key = JSON.parse(text.slice(at, keyEnd)) as string;
    const start = skipSpace(text, text.indexOf(":", keyEnd) + 1);
    const end = endOfValue(text, start);
    members.push({ key, raw: text.slice(start, end) });
    at = skipSpace(text, end);
    if (text.charCodeAt(at) === COMMA) at = skipSpace(text, at + 1);
  }
  return members;
}

/** The exact texts of the elements of a JSON array. `text` must be an array that `JSON.parse` has accepted. */
export function rawElements(text: string): string[] {
  const elements: string[] = [];
  let at = skipSpace(text, text.indexOf("[") + 1);
  while (text.charCodeAt(at) !== CLOSE_BRACKET) {
    const end = endOfValue(text, at);
    elements.push(text.slice(at, end));
    at = skipSpace(text, end);
    if (text.charCodeAt(at) === COMMA) at = skipSpace(text, at + 1);
  }
  return elements;
}

/** The exact text of member `key`, or undefined; of a repeated key the last, as `JSON.parse` takes it. */
export function rawMember(text: string, key: string): string | undefined {
  return rawMembers(text).findLast((member) => member.key === key)?.raw;
}

/** The object without member `key`; the texts of the other values are unchanged. */
export function withoutMember(text: string, key: string): string {
  const kept = rawMembers(text).filter((member) => member.key !== key);
  return `{${kept.map((member) => `${JSON.stringify(member.key)}:${member.raw}`).join(",")}}`;
}

/** White space in JSON is below or at the space character, and nothing else outside strings is. */
function skipSpace(text: string, at: number): number {
  while (text.charCodeAt(at) <= SPACE) at += 1;
  return at;
}

function endOfValue(text: string, start: number): number {
  const first = text.charCodeAt(start);
  if (first === QUOTE) return endOfString(text, start);
  if (first === OPEN_BRACE || first === OPEN_BRACKET) return endOfNested(text, start);
  let at = start;
  while (!endsScalar(text.charCodeAt(at))) at += 1;
  return at;
}

function endsScalar(code: number): boolean {
  // charCodeAt is NaN past the end of the text.
  return (
    code === COMMA || code === CLOSE_BRACE || code === CLOSE_BRACKET || code <= SPACE || Number.isNaN(code)
  );
}

function endOfString(text: string, start: number): number {
  let quote = text.indexOf('"', start + 1);
  while (isEscaped(text, quote)) quote = text.indexOf('"', quote + 1);
  if (quote === -1) throw new TypeError("the scan ran past the end: the text is not valid JSON");
  return quote + 1;
}

/** Whether the character at `at` is preceded by an odd number of backslashes. */
function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text.charCodeAt(first - 1) === BACKSLASH) first -= 1;
  return (at - first) % 2 === 1;
}

function endOfNested(text: string, start: number): number {
  let depth = 0;
  for (let at = start; ; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at) - 1;
    else if (code === OPEN_BRACE || code === OPEN_BRACKET) depth += 1;
    else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
      depth -= 1;
      if (depth === 0) return at + 1;
    } else if (Number.isNaN(code))
      throw new TypeError("the scan ran past the end: the text is not valid JSON");
  }
}
