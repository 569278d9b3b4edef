import { createHash } from "node:crypto";

/** Crockford's base 32: without I, L, O and U, which are easily misread. */
const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

type Name = string | number | bigint | boolean | null;

/**
 * A number in [0, 1) that depends only on its arguments. Everything random that a client can see comes from here, so
 * the same seed and the same requests give the same world, even across restarts.
 */
export function chance(seed: number, ...names: readonly Name[]): number {
  return digest(seed, names).readUIntBE(0, 6) / 2 ** 48;
}

/** Chooses one of `choices`, which must not be empty. */
export function choose<Choice>(choices: readonly Choice[], seed: number, ...names: readonly Name[]): Choice {
  const chosen = choices[Math.floor(chance(seed, ...names) * choices.length)];
  if (chosen === undefined) throw new TypeError("nothing to choose from");
  return chosen;
}

/** `length` (at most 32) characters of base 32. */
export function makeCode(length: number, seed: number, ...names: readonly Name[]): string {
  return Array.from(digest(seed, names).subarray(0, length), (byte) => ALPHABET[byte % 32]).join("");
}

/** A UUID, version 8 (custom). */
export function makeUuid(seed: number, ...names: readonly Name[]): string {
  const hex = digest(seed, names).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

function digest(seed: number, names: readonly Name[]): Buffer {
  const text = JSON.stringify([seed, ...names.map(String)]);
  return createHash("sha256").update(text).digest();
}
