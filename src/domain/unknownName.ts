import { closestMatch } from "leven";

/** Longer names are cut: a caller sent them, and the sentence goes into answers and logs. */
const SHOWN_MAX = 60;
/** More known names than these are not listed. */
const LISTED_MAX = 20;
/** A name may differ from the intended one in one of so many letters: `asOf` is not a misspelt `sort`. */
const LETTERS_PER_TYPO = 3;

/**
 * Says that a name is unknown, and which known name is nearest, or the only one that begins with it: `unknown parameter
 * statuss; did you mean status?`. Without such a name it lists the known ones, if they are few. `kind` says what is
 * named, such as `parameter`.
 */
export function describeUnknownName(kind: string, name: string, known: readonly string[]): string {
  const byLowerCase = new Map(known.map((each) => [each.toLowerCase(), each]));
  const maxDistance = Math.max(1, Math.floor(name.length / LETTERS_PER_TYPO));
  const closest = closestMatch(name.toLowerCase(), [...byLowerCase.keys()], { maxDistance });
  const longer = known.filter((each) => each.startsWith(name));
  const nearest = closest === undefined ? undefined : byLowerCase.get(closest);
  const meant = nearest ?? (longer.length === 1 ? longer[0] : undefined);
  const unknown = `unknown ${kind} ${name.slice(0, SHOWN_MAX)}`;
  if (meant !== undefined) return `${unknown}; did you mean ${meant}?`;
  return known.length > LISTED_MAX ? unknown : `${unknown}; known are ${known.join(", ")}`;
}
