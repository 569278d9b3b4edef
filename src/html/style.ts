import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

/**
 * The values that the style sheet is made of. Colours are named for their meaning; every text colour has at least 4.5:1
 * (WCAG 2.2, 1.4.3) on every background of its theme.
 * @internal
 */
export const LIGHT = {
  text: "#16191d",
  dim: "#545e6b",
  line: "#dde1e6",
  edge: "#8a94a0",
  page: "#fff",
  card: "#f6f7f9",
  link: "#0b57b0",
  alert: "#a3260f",
  "alert-back": "#fdf0ed",
  good: "#1c6b34",
  "good-back": "#eef7f0",
  warn: "#7a5200",
  "warn-back": "#fdf6e7",
  proved: "#2f8f52",
  open: "#9db4c8",
  gap: "#c2371c",
  late: "#b98a1d",
} as const;

type Colours = Readonly<Record<keyof typeof LIGHT, string>>;

/** @internal */
export const DARK: Colours = {
  text: "#e7eaee",
  dim: "#a3adb9",
  line: "#2f363f",
  edge: "#6d7885",
  page: "#111418",
  card: "#1a1e24",
  link: "#86b7fa",
  alert: "#ff9b85",
  "alert-back": "#2b1713",
  good: "#7fd49a",
  "good-back": "#13241a",
  warn: "#f0c36a",
  "warn-back": "#282010",
  proved: "#43a868",
  open: "#4b6074",
  gap: "#ff7a5c",
  late: "#d9ae4a",
};

/** Of text: notes, what goes with text, text, headings, and the title of a page. @internal */
export const SIZES = {
  "size-1": "0.75rem",
  "size-2": "0.875rem",
  "size-3": "1rem",
  "size-4": "1.125rem",
  "size-5": "1.5rem",
} as const;

/** Between parts and inside them. @internal */
export const SPACES = {
  "space-1": "0.25rem",
  "space-2": "0.5rem",
  "space-3": "0.75rem",
  "space-4": "1rem",
} as const;

/** Values as custom properties of CSS. */
function declare(values: Readonly<Record<string, string>>): string {
  return Object.entries(values)
    .map(([name, value]) => `--${name}: ${value};`)
    .join(" ");
}

/** The text of a file in `assets`, next to `src` and `dist`: style sheets, and scripts that browsers run unchanged. */
export function readAsset(name: string): string {
  return readFileSync(new URL(`../../assets/${name}`, import.meta.url), "utf8");
}

const { resolve } = createRequire(import.meta.url);

/** The text of a package's file. */
export function readPackageFile(name: string): string {
  return readFileSync(resolve(name), "utf8");
}

const BASE = readPackageFile("@picocss/pico/css/pico.fluid.classless.min.css").replace(
  /^@charset "UTF-8";/,
  "",
);

/** The one style sheet of our pages: Pico below our values and rules, which win over it whatever their selectors. */
export const STYLE = `@layer base {
${BASE}
}
:root { ${declare(LIGHT)} ${declare(SIZES)} ${declare(SPACES)} }
@media (prefers-color-scheme: dark) {
  :root { ${declare(DARK)} }
}
${readAsset("pages.css")}`;
