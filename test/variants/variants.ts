import { CORE_FLAWS } from "./coreFlaws.ts";
import { OTHER_FLAWS } from "./otherFlaws.ts";

/** Replaced or removed text of a file of src. */
interface Edit {
  /** From src. */
  readonly in: string;
  /** Occurs exactly once; otherwise the variant is refused, because it would no longer be the named flaw. */
  readonly find: string;
  readonly replace?: string;
}

/** A deliberate flaw, and the test that must fail. */
export interface Variant extends Edit {
  readonly flaw: string;
  /** Replaced afterwards. */
  readonly and?: Edit;
  /** The test: its file, below `test` and without its ending, and its name or a part of it. */
  readonly by: `${string}: ${string}`;
}

export function testOf({ by }: Variant): { readonly file: string; readonly test: string } {
  const end = by.indexOf(": ");
  return { file: `test/${by.slice(0, end)}.test.ts`, test: by.slice(end + 2) };
}

/** The texts of the files that the flaw changes; throws when they are not what it was made for. */
export function plant(variant: Variant, read: (file: string) => string): Map<string, string> {
  const changed = new Map<string, string>();
  for (const { in: file, find, replace = "" } of variant.and ? [variant, variant.and] : [variant]) {
    const source = changed.get(file) ?? read(file);
    if (source.split(find).length !== 2 || find === replace)
      throw new Error(`src/${file} does not hold once, to be changed: ${find}`);
    changed.set(
      file,
      source.replace(find, () => replace),
    );
  }
  return changed;
}

/** Flaws that such a mirror is likely to have, and those that no test had noticed before. */
export const VARIANTS: readonly Variant[] = [...CORE_FLAWS, ...OTHER_FLAWS];
