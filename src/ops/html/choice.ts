import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";

/** A labelled list of words to choose from in a form; with `any`, none of them may be chosen as well. */
export function renderChoice(choice: {
  label: string;
  name: string;
  words: readonly string[];
  chosen: string | null;
  any: boolean;
}): Html {
  const { label, name, words, chosen, any } = choice;
  return html`<label
    >${label}
    <select name="${name}">
      ${any ? html`<option value="">any</option>` : html``}
      ${words.map((word) => html`<option ${word === chosen ? html`selected` : html``}>${word}</option>`)}
    </select></label
  >`;
}
