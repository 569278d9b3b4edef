import { readField } from "../page.ts";

// The choice that the address of a list makes, all of it by name, so that a link or a bookmark keeps what is shown.

/** The names in an address with the words that mean something, the standard first; null: any text. */
export type Names<Name extends string = string> = Readonly<Record<Name, readonly string[] | null>>;

/** The maximum length of an external id; no other name is longer. */
export const TEXT_LENGTH_MAX = 512;

/** Reads the word of each name; one that means nothing is as if it were absent. */
export function parseChoice<Name extends string>(
  names: Names<Name>,
  address: Readonly<Record<string, unknown>>,
): Record<Name, string> {
  const words = Object.entries<readonly string[] | null>(names).map(([name, known]) => {
    const word = readField(address[name]).trim().slice(0, TEXT_LENGTH_MAX);
    return [name, known === null || known.includes(word) ? word : known[0]];
  });
  return Object.fromEntries(words) as Record<Name, string>;
}

/** Writes a choice as a query, with the position before the page's first row; what is standard is left out. */
export function writeChoice(
  names: Names,
  chosen: Readonly<Record<string, string>>,
  after: readonly string[] = [],
): string {
  const isSaid = ([name, word]: [string, string]) => word !== (names[name]?.[0] ?? "");
  const parameters = new URLSearchParams(Object.entries(chosen).filter(isSaid));
  for (const part of after) parameters.append("after", part);
  return parameters.size === 0 ? "" : `?${parameters.toString()}`;
}

/** Reads the position before the page's first row; null on the first page. */
export function parsePosition(address: Readonly<Record<string, unknown>>): readonly string[] | null {
  const after = [address["after"]].flat().map(readField);
  return after.every((key) => key === "") ? null : after;
}
