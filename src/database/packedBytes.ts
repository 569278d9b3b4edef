/**
 * Where each part of so many bytes begins within all of them together, counted from 1 as Postgres' `substring` does.
 * Parts that travel as one binary value and are cut apart by the server cost it less than an array, of which every byte
 * would be sent as two hex digits.
 */
export function startsOf(lengths: readonly number[]): number[] {
  let next = 1;
  return lengths.map((length) => {
    const start = next;
    next += length;
    return start;
  });
}
