/** A variable that the product does not read, and the variable that was probably meant. */
export interface Misspelt {
  readonly name: string;
  readonly meant: string;
}

/** Shorter names of ours resemble too many names of other programs (PORT and POST). */
const LENGTH_MIN = 8;
/** From this length on, two letters may differ. */
const LONG = 10;
/** Variables with this prefix are meant for us, whatever follows. */
const OURS = "DELIVERY_";

/** Those of `names` that almost equal one of `known`, with the nearest one. */
export function findMisspelt(names: Iterable<string>, known: readonly string[]): Misspelt[] {
  return [...names].flatMap((name) => {
    if (known.includes(name)) return [];
    const [nearest] = known
      // Cheap, and leaves few names to compare letter by letter.
      .filter((meant) => Math.abs(name.length - meant.length) <= countMayDiffer(name, meant))
      .map((meant) => ({ meant, distance: editDistance(name.toUpperCase(), meant.toUpperCase()) }))
      .filter(({ meant, distance }) => distance <= countMayDiffer(name, meant))
      .sort((one, other) => one.distance - other.distance);
    return nearest === undefined ? [] : [{ name, meant: nearest.meant }];
  });
}

/** How many letters of `name` may differ from `meant`; negative: not even none. */
function countMayDiffer(name: string, meant: string): number {
  if (name.startsWith(OURS) && meant.startsWith(OURS)) return Infinity;
  if (meant.length < LENGTH_MIN) return -1;
  return meant.length >= LONG ? 2 : 1;
}

/** The number of letters to insert, drop, replace or swap with a neighbour (Damerau-Levenshtein). */
function editDistance(left: string, right: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: right.length + 1 }, (_, column) => column);
  for (let row = 1; row <= left.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= right.length; column += 1) {
      const same = left[row - 1] === right[column - 1] ? 0 : 1;
      const swaps = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
      current[column] = Math.min(
        (last[column] ?? Infinity) + 1,
        (current[column - 1] ?? Infinity) + 1,
        (last[column - 1] ?? Infinity) + same,
        swaps ? (beforeLast[column - 2] ?? Infinity) + 1 : Infinity,
      );
    }
    beforeLast = last;
    last = current;
  }
  return last[right.length] ?? 0;
}
