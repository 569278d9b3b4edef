import { listUnescaped, unescaped } from "../domain/unescaped.ts";

const decoder = new TextDecoder("utf-8");
const strictDecoder = new TextDecoder("utf-8", { fatal: true });
const BASE64 = /[\w+/-]{8,}/g;
/** Strings of JSON, and words in a text or an address. */
const STRING = /"([^"\\]*(?:\\.[^"\\]*)*)"/gs;
const WORD = /[\p{L}\p{N}\p{M}_.-]{3,255}/gu;
const NAME_LENGTH_MAX = 255;

/** By which an order may be named in a body. */
export interface OrderNames {
  readonly reference: string;
  /** The business's own ids of the order. */
  readonly externalOrderIds: readonly string[];
}

/**
 * How a body without an order mentions one. `named`: it contains the reference as a separate word or string. `perhaps`:
 * it contains the reference in similar letters (another case or width, another dash) or joined to something by a sign,
 * or the business's own id. `unreadable`: it is not text.
 */
export type Mention = "named" | "perhaps" | "unreadable" | "none";

/** All strings in a body that may be an order reference, however they are escaped: quoted texts and words. */
export function namesIn(body: Buffer): string[] {
  const names = new Set<string>();
  for (const text of listReadings(body)) {
    for (const [, name = ""] of text.matchAll(STRING)) names.add(unescaped(name));
    // Text between any two quotes: if the body is not JSON, nobody knows which of them begin a string.
    for (const name of text.split('"')) names.add(name);
    for (const [word] of text.matchAll(WORD)) {
      names.add(word);
      // The end of a sentence.
      names.add(word.replace(/\.+$/, ""));
    }
  }
  // Text that Postgres cannot store is not the reference of any order.
  return [...names].filter(
    (name) => name !== "" && name.length <= NAME_LENGTH_MAX && name.isWellFormed() && !name.includes("\0"),
  );
}

export function findMention(body: Buffer, { reference, externalOrderIds }: OrderNames): Mention {
  if (namesIn(body).includes(reference)) return "named";
  const text = simplified(listReadings(body).join("\n"));
  if ([reference, ...externalOrderIds].some((name) => standsIn(text, simplified(name)))) return "perhaps";
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

/** Letters that look alike become the same: other widths and compositions, invisible marks, dashes. */
function simplified(text: string): string {
  return text
    .normalize("NFKC")
    .replaceAll(/\p{Cf}/gu, "")
    .replaceAll(/\p{Pd}/gu, "-");
}

/** The body as text: unchanged, without escapes, without the escapes in those, and what is in it as base64. */
function listReadings(body: Buffer): string[] {
  // Zeros are what UTF-16 has between plain letters.
  const readings = listUnescaped(decoder.decode(body).replaceAll("\0", ""));
  const encoded = (readings.at(-1) ?? "").match(BASE64) ?? [];
  const inside = encoded.map((run) => decoder.decode(Buffer.from(run, "base64"))).join("\n");
  return inside === "" ? readings : [...readings, ...listUnescaped(inside)];
}

function isText(body: Buffer): boolean {
  try {
    strictDecoder.decode(body);
    return true;
  } catch {
    return body.length % 2 === 0 && body.includes(0);
  }
}
