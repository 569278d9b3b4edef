import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";

/**
 * A labelled list of words to choose from in a form. Unless `any` is null, none of them may be chosen as well. A link may
 * have chosen another word, such as a value that no order has now: it is shown, too.
 */
export function renderChoice(choice: {
  label: string;
  name: string;
  words: readonly string[];
  /** Null or empty: none. */
  chosen: string | null;
  /** What the choice of none is called; default: any. */
  any?: string | null;
  /** A word as people read it; default: as it is. */
  describe?: ((word: string) => string) | undefined;
}): Html {
  const { label, name, words, chosen, any = "any", describe = (word) => word } = choice;
  const all = chosen === null || chosen === "" || words.includes(chosen) ? words : [...words, chosen];
  return html`<label
    >${label}
    <select name="${name}">
      ${any !== null && html`<option value="">${any}</option>`}
      ${all.map((word) => html`<option value="${word}" ${word === chosen && html`selected`}>${describe(word)}</option>`)}
    </select></label
  >`;
}
