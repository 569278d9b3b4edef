import { CORE_FLAWS } from "./coreFlaws.ts";
import { OTHER_FLAWS } from "./otherFlaws.ts";

/** Replaced or removed text of a file of src. */
export interface Edit {
  /** From src. */
  readonly in: string;
  /** Occurs exactly once; otherwise the variant is refused, because it would no longer be the named flaw. */
  readonly find: string;
  readonly replace?: string;
}

/** A deliberate flaw, and the test that must fail. */
export interface Variant extends Edit {
  readonly flaw: string;
  /** Replaced as well. */
  readonly and?: Edit;
  /** The test: its file, below `test` and without its ending, and its name or a part of it. */
  readonly by: `${string}: ${string}`;
}

export const editsOf = (variant: Variant): readonly Edit[] =>
  variant.and ? [variant, variant.and] : [variant];
export function testOf({ by }: Variant): { readonly file: string; readonly test: string } {
  const end = by.indexOf(": ");
  return { file: `test/${by.slice(0, end)}.test.ts`, test: by.slice(end + 2) };
}

/** Flaws that such a mirror is likely to have, and those that no test had noticed before. */
export const VARIANTS: readonly Variant[] = [...CORE_FLAWS, ...OTHER_FLAWS];
