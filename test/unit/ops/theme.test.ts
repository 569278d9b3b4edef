import { describe, expect, it } from "vitest";
import { readAsset, STYLE } from "../../../src/html/style.ts";

const RULES = readAsset("pages.css");
const COLOURS = [...RULES.matchAll(/--([\w-]+): light-dark\((#\w+), (#\w+)\)/g)];
const LIGHT = Object.fromEntries(COLOURS.map(([, name = "", light = ""]) => [name, light]));
const DARK = Object.fromEntries(COLOURS.map(([, name = "", , dark = ""]) => [name, dark]));

const TEXTS = ["text", "dim", "link", "alert", "good", "warn"] as const;
const BACKGROUNDS = ["page", "card", "alert-back", "good-back", "warn-back"] as const;

describe.each(Object.entries({ LIGHT, DARK }))("the theme %s", (_name, theme) => {
  it.each(TEXTS.flatMap((text) => BACKGROUNDS.map((back) => [text, back] as const)))(
    "shows %s on %s with a contrast of at least 4.5:1",
    (text, back) => {
      expect(contrastRatio(theme[text] ?? "", theme[back] ?? "")).toBeGreaterThanOrEqual(4.5);
    },
  );

  it("shows the main action, in the colour of the page on that of links, with at least 4.5:1", () => {
    expect(contrastRatio(theme["page"] ?? "", theme["link"] ?? "")).toBeGreaterThanOrEqual(4.5);
  });
});

describe("the style sheet", () => {
  it("uses no other colour, no other size of text, and no value that is not declared", () => {
    const rules = RULES.replaceAll(/--[\w-]+: [^;]+;/g, "");
    expect(rules).not.toMatch(/#[0-9a-f]{3,6}\b(?=[^{]*\})/i);
    expect(rules).not.toMatch(/font(?:-size)?: [\d.]+rem/);
    const used = [...RULES.matchAll(/var\(--([\w-]+)/g)].map(([, name = ""]) => name);
    expect(used.filter((name) => !STYLE.includes(`--${name}:`))).toEqual([]);
  });
});

/** The contrast of two colours in the form #rgb or #rrggbb, from 1 to 21, as WCAG 2.2 defines it. */
function contrastRatio(one: string, other: string): number {
  const [dark = 0, light = 0] = [luminance(one), luminance(other)].toSorted((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

function luminance(colour: string): number {
  const digits = colour.length === 4 ? colour.replaceAll(/[^#]/g, "$&$&") : colour;
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const share = Number.parseInt(digits.slice(at, at + 2), 16) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
