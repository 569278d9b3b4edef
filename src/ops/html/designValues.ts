import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { renderTable } from "../../html/table.ts";
import { BACKGROUNDS, contrastRatio, DARK, LIGHT, SIZES, SPACES, TEXTS } from "../../html/theme.ts";

const THEMES = { Light: LIGHT, Dark: DARK };
type Theme = typeof LIGHT | typeof DARK;

/** The type scale, spaces and colours of the style sheet, with the contrast of each text on each background. */
export function renderValues(): Html {
  const sizes = renderSamples(
    ["Type scale", "Size"],
    Object.entries(SIZES),
    (size) =>
      html`<svg class="sample" width="12rem" height="2rem" aria-hidden="true">
        <text y="1.5rem" font-size="${size}">Delivered 14:32</text>
      </svg>`,
  );
  const spaces = renderSamples(
    ["Spaces", "Size"],
    Object.entries(SPACES),
    (size) =>
      html`<svg class="sample" width="1rem" height="1rem" aria-hidden="true">
        <rect width="${size}" height="${size}" />
      </svg>`,
  );
  return html`<h2>Sizes of text</h2>
    ${sizes}
    <h2>Spaces</h2>
    ${spaces} ${Object.entries(THEMES).map(([name, theme]) => renderTheme(name, theme))}`;
}

function renderSamples(
  [title, kind]: readonly [title: string, kind: string],
  values: readonly (readonly [name: string, value: string])[],
  draw: (value: string) => Html,
): Html {
  const rows = values.map(([name, value]) => [html`<code>${name}</code>`, value, draw(value)]);
  return renderTable({ title, columns: ["Name", kind, "Sample"], rows });
}

function renderTheme(name: string, theme: Theme): Html {
  const others = Object.entries(theme).filter(
    ([colour]) => ![...TEXTS, ...BACKGROUNDS].some((one) => one === colour),
  );
  return html`<h2>${name} colours of text</h2>
    ${renderTable({
      title: `Text on backgrounds, ${name.toLowerCase()}, with their contrast`,
      columns: ["Text", ...BACKGROUNDS],
      rows: TEXTS.map((text) => [
        html`<code>${text}</code> ${theme[text]}`,
        ...BACKGROUNDS.map((back) => renderPair(theme[text], theme[back])),
      ]),
    })}
    <h2>${name} colours of lines and charts</h2>
    ${renderSamples(
      [`Colours of lines and charts, ${name.toLowerCase()}`, "Colour"],
      others,
      (value) =>
        html`<svg class="sample" width="4rem" height="1rem" aria-hidden="true">
          <rect width="100%" height="100%" fill="${value}" />
        </svg>`,
    )}`;
}

function renderPair(text: string, back: string): Html {
  const ratio = `${contrastRatio(text, back).toFixed(1)}:1`;
  return html`<svg class="sample" width="5rem" height="1.75rem" role="img" aria-label="${ratio}">
    <rect width="100%" height="100%" fill="${back}" />
    <text x="0.5rem" y="1.25rem" fill="${text}">${ratio}</text>
  </svg>`;
}
