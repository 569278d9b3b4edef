import { ASPECTS } from "../../domain/window/providerBehaviour.ts";
import type { Aspect } from "../../domain/window/providerBehaviour.ts";

/** The aspects in words, for use in a sentence. */
export const ASPECT_NAMES: Record<Aspect, string> = {
  sort: "sort order",
  precision: "precision of timestamps",
  page: "page length",
  clock: "clock against this machine's",
  rate: "rate of list reads",
};

/** The measured values in one phrase, always in the same order. */
export function describeBehaviour(
  behaviour: readonly { readonly aspect: Aspect; readonly value: string }[],
): string {
  return ASPECTS.flatMap((aspect) => {
    const value = behaviour.find((each) => each.aspect === aspect)?.value;
    return value === undefined ? [] : [PHRASES[aspect](value)];
  }).join(", ");
}

const PHRASES: Record<Aspect, (value: string) => string> = {
  sort: (value) => (value === "unsorted" ? value : `sorted ${value}`),
  precision: (value) => `to the ${value}`,
  page: (value) => `pages of ${value}`,
  // The aspect refers to the local clock.
  clock: (value) => `local clock ${value}`,
  rate: (value) => `list reads ${value}`,
};
