import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";

/** A labelled list of words to choose from in a form; with `any`, none of them may be chosen as well. */
export function renderChoice(choice: {
  label: string;
  name: string;
  words: readonly string[];
  chosen: string | null;
  any: boolean;
  /** A word as people read it; default: as it is. */
  describe?: (word: string) => string;
}): Html {
  const { label, name, words, chosen, any, describe = (word) => word } = choice;
  return html`<label
    >${label}
    <select name="${name}">
      ${any ? html`<option value="">any</option>` : html``}
      ${words.map((word) => html`<option value="${word}" ${word === chosen ? html`selected` : html``}>${describe(word)}</option>`)}
    </select></label
  >`;
}
