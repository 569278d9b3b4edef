/**
 * The offset of each part within the concatenation of all parts, counted from 1 as in Postgres' `substring`. Sending
 * the parts as one binary value that the server splits is cheaper than an array, in which every byte would be sent as
 * two hex digits.
 */
export function startsOf(lengths: readonly number[]): number[] {
  let next = 1;
  return lengths.map((length) => {
    const start = next;
    next += length;
    return start;
  });
}
