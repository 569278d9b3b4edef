/** The columns of a range's sum, over expressions of type bytea for the states' hashes and the salt: see digestState. */
export function sumColumns(hash: string, salt: string): string {
  return `count(*)::int as count,
    bit_xor(('x' || encode(substring(sha256(${salt} || ${hash}) for 16), 'hex'))::bit(128))::text as sum`;
}

export interface SumRow {
  readonly count: number;
  /** 128 binary digits; null if there are no states. */
  readonly sum: string | null;
}

/** The states of a range, as a condition on expressions for the version (bigint) and the hash (bytea). */
export function withinRange(version: string, hash: string, range: string): string {
  return `${version} >= ${range}.since and ${version} <= ${range}.until
    and (${version} > ${range}.since or ${hash} >= ${range}.since_hash)
    and (${version} < ${range}.until or ${hash} < ${range}.until_hash)`;
}
