import { TRAITS } from "../../domain/window/providerTraits.ts";
import type { Trait } from "../../domain/window/providerTraits.ts";

const NAMES: Record<Trait, string> = {
  sort: "sort order",
  since: "start of a period",
  until: "end of a period",
  precision: "precision of timestamps",
  page: "page length",
  ties: "order of equal timestamps",
  clock: "clock against this machine's",
  rate: "rate of list reads",
};

/** The trait in words, for a sentence about it. */
export function nameTrait(trait: Trait): string {
  return NAMES[trait];
}

/** What was measured, in one phrase; always in the same order. */
export function describeTraits(traits: readonly { readonly trait: Trait; readonly value: string }[]): string {
  return TRAITS.flatMap((trait) => {
    const value = traits.find((each) => each.trait === trait)?.value;
    return value === undefined ? [] : [PHRASES[trait](value)];
  }).join(", ");
}

const PHRASES: Record<Trait, (value: string) => string> = {
  sort: (value) => (value === "unsorted" ? value : `sorted ${value}`),
  since: (value) => `since ${value}`,
  until: (value) => `until ${value}`,
  precision: (value) => `to the ${value}`,
  page: (value) => `pages of ${value}`,
  ties: (value) => `equal times ${value}`,
  // The trait says where the local clock is.
  clock: (value) => `local clock ${value}`,
  rate: (value) => `list reads ${value}`,
};
