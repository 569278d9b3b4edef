import { STYLE } from "../../html/style.ts";

/** The design of the mirror's pages, and what only this page has. A separate file: its policy allows no inline style. */
export const PAGE_STYLE = `${STYLE}
.halves { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 0 2.5rem; }
.halves > section { min-width: 0; }
form.dials { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 18rem), 1fr)); }
form.dials button { justify-self: start; }
li.actions { align-items: center; padding: 0.25rem 0; }
input.on, select.on { border-color: var(--warn); background: var(--warn-back); }
@media (max-width: 44rem) {
  table.cards td:has(.actions) { display: block; text-align: left; }
}
`;
