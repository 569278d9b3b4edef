import { createHash } from "node:crypto";
import { html } from "./html.ts";
import type { Html } from "./html.ts";

const STYLE = `
:root { color-scheme: light dark; --text: #1a1d21; --dim: #5a6370; --line: #d5dae0; --page: #fff; --card: #f6f7f9; --link: #0b57b0; --alert: #a3260f; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e7eaee; --dim: #a3adb9; --line: #353c45; --page: #14171b; --card: #1c2026; --link: #86b7fa; --alert: #ff9b85; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 60rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); }
header { display: flex; flex-wrap: wrap; gap: 0 1rem; align-items: baseline; justify-content: space-between; }
h1 { font-size: 1.25rem; margin: 0; }
h2 { font-size: 1rem; margin: 1.5rem 0 0.5rem; }
h3 { font-size: 1rem; margin: 0; }
p { margin: 0.25rem 0; }
a { color: var(--link); text-underline-offset: 0.15em; }
a:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; border-radius: 2px; }
ul.cards { list-style: none; margin: 0; padding: 0; display: grid; gap: 0.75rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 17rem), 1fr)); }
ul.cards > li { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 0.75rem 1rem; overflow-wrap: anywhere; }
dl { margin: 0.25rem 0 0; }
dt { color: var(--dim); font-size: 0.875rem; margin-top: 0.5rem; }
dd { margin: 0; font-variant-numeric: tabular-nums; }
.number { font-size: 1.5rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.dim { color: var(--dim); font-size: 0.875rem; }
.alert { color: var(--alert); font-weight: 600; }
nav ul { display: flex; flex-wrap: wrap; gap: 0.25rem 1.5rem; margin: 0; padding: 0; list-style: none; }
`;

/** Whole, because a formatter that indents what is in the element would change what the hash is of. */
const STYLE_ELEMENT: Html = { markup: `<style>${STYLE}</style>` };
const STYLE_HASH = createHash("sha256").update(STYLE).digest("base64");

/** Our pages load nothing at all: neither script nor font, image or frame, from here or elsewhere. */
export const PAGE_POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${STYLE_HASH}'`,
  "img-src data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** A whole document. The empty icon keeps browsers from asking for one. */
export function renderPage({ title, body }: { title: string; body: Html }): string {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex" />
        <link rel="icon" href="data:," />
        <title>${title}</title>
        ${STYLE_ELEMENT}
      </head>
      <body>
        ${body}
      </body>
    </html> `.markup;
}
