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
      .map((meant) => ({ meant, distance: editDistance(name, meant) }))
      .filter(({ meant, distance }) => isNear(name, meant, distance))
      .sort((one, other) => one.distance - other.distance);
    return nearest === undefined ? [] : [{ name, meant: nearest.meant }];
  });
}

function isNear(name: string, meant: string, distance: number): boolean {
  if (name.startsWith(OURS) && meant.startsWith(OURS)) return true;
  return meant.length >= LENGTH_MIN && distance <= (meant.length >= LONG ? 2 : 1);
}

/** The number of letters to insert, drop, replace or swap with a neighbour (Damerau-Levenshtein, case-insensitive). */
function editDistance(one: string, other: string): number {
  const [left, right] = [one.toUpperCase(), other.toUpperCase()];
  let beforeLast: number[] = [];
  let last = Array.from({ length: right.length + 1 }, (_, column) => column);
  for (let row = 1; row <= left.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= right.length; column += 1) {
      const same = left[row - 1] === right[column - 1] ? 0 : 1;
      const at = (line: readonly number[], place: number) => line[place] ?? Infinity;
      const swaps = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
      current[column] = Math.min(
        at(last, column) + 1,
        at(current, column - 1) + 1,
        at(last, column - 1) + same,
        swaps ? at(beforeLast, column - 2) + 1 : Infinity,
      );
    }
    beforeLast = last;
    last = current;
  }
  return last[right.length] ?? 0;
}
