const decoder = new TextDecoder("utf-8");
const strictDecoder = new TextDecoder("utf-8", { fatal: true });
const ESCAPED = /\\u([0-9a-f]{4})/gi;
/** Quoted texts, and words in a text or an address. */
const QUOTED = /"([^"]{1,255})"/g;
const WORD = /[\p{L}\p{N}_.-]{3,255}/gu;

/** By which an order may be named in a body. */
export interface OrderNames {
  readonly reference: string;
  readonly externalOrderId: string | null;
}

/**
 * How a body without an order mentions one. `named`: it contains the reference as a separate word or string. `perhaps`:
 * it contains the reference in another case or joined to something by a sign, or the business's own id. `unreadable`:
 * it is not text.
 */
export type Mention = "named" | "perhaps" | "unreadable" | "none";

/** All strings in a body that may be an order reference: quoted texts and words. */
export function namesIn(body: Buffer): string[] {
  const text = plainText(body);
  const names = new Set<string>();
  for (const [, name = ""] of text.matchAll(QUOTED)) names.add(name);
  for (const [word] of text.matchAll(WORD)) {
    names.add(word);
    // The end of a sentence.
    names.add(word.replace(/\.+$/, ""));
  }
  // Text that Postgres cannot store is not the reference of any order.
  return [...names].filter((name) => name.isWellFormed() && !name.includes("\0"));
}

export function findMention(body: Buffer, { reference, externalOrderId }: OrderNames): Mention {
  const names = namesIn(body);
  if (names.includes(reference)) return "named";
  const wanted = [reference, encodeURIComponent(reference)];
  if (externalOrderId !== null) wanted.push(externalOrderId);
  const text = plainText(body);
  if (wanted.some((name) => standsIn(text, name))) return "perhaps";
  return isText(body) ? "none" : "unreadable";
}

/** Whether `name` occurs in any case, but not as part of a longer word: DO-1 is not DO-12. */
function standsIn(text: string, name: string): boolean {
  const plain = Array.from(
    name,
    (letter) => String.raw`\u{${letter.codePointAt(0)?.toString(16) ?? ""}}`,
  ).join("");
  return new RegExp(String.raw`(?<![\p{L}\p{N}])${plain}(?![\p{L}\p{N}])`, "iu").test(text);
}

/** The text without escapes of JSON, however often it was escaped. Zeros are what UTF-16 has between plain letters. */
function plainText(body: Buffer): string {
  return decoder
    .decode(body)
    .replaceAll("\0", "")
    .replaceAll(ESCAPED, (_escape, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    .replaceAll("\\", "");
}

function isText(body: Buffer): boolean {
  try {
    strictDecoder.decode(body);
    return true;
  } catch {
    return body.length % 2 === 0 && body.includes(0);
  }
}
