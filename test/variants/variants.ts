import { CORE_FLAWS } from "./coreFlaws.ts";
import { OTHER_FLAWS } from "./otherFlaws.ts";

/** Replaced text of a file of src. */
export interface Edit {
  /** From src. */
  readonly in: string;
  /** Occurs exactly once; otherwise the variant is refused, because it would no longer be the named flaw. */
  readonly find: string;
  readonly replace: string;
}

/** A deliberate flaw, and the test that must fail. */
export interface Variant extends Edit {
  readonly flaw: string;
  /** Replaced as well. */
  readonly and?: readonly Edit[];
  /** The file of the test, below `test` and without its ending. */
  readonly by: string;
  readonly test: string;
}

export const editsOf = (variant: Variant): readonly Edit[] => [variant, ...(variant.and ?? [])];
export const testFileOf = ({ by }: Variant): string => `test/${by}.test.ts`;

/** Flaws that such a mirror is likely to have, and those that no test had noticed before. */
export const VARIANTS: readonly Variant[] = [...CORE_FLAWS, ...OTHER_FLAWS];
