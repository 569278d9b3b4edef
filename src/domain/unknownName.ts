import { closestMatch } from "leven";

/** Longer names are cut: a caller sent them, and the sentence goes into answers and logs. */
const SHOWN_MAX = 60;
/** A name may differ from the intended one in one of so many letters: `asOf` is not a misspelt `sort`. */
const LETTERS_PER_TYPO = 3;

/**
 * Says that a name is unknown, and which known name is nearest: `unknown parameter statuss; did you mean status?`. Without a
 * near one it lists the known names. `kind` says what is named, such as `parameter`.
 */
export function describeUnknownName(kind: string, name: string, known: readonly string[]): string {
  const byLowerCase = new Map(known.map((each) => [each.toLowerCase(), each]));
  const maxDistance = Math.max(1, Math.floor(name.length / LETTERS_PER_TYPO));
  const closest = closestMatch(name.toLowerCase(), [...byLowerCase.keys()], { maxDistance });
  const nearest = closest === undefined ? undefined : byLowerCase.get(closest);
  const unknown = `unknown ${kind} ${name.slice(0, SHOWN_MAX)}`;
  return nearest === undefined
    ? `${unknown}; known are ${known.join(", ")}`
    : `${unknown}; did you mean ${nearest}?`;
}
