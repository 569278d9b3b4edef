import { readFileSync } from "node:fs";
import { DARK, declare, LIGHT, SIZES, SPACES } from "./theme.ts";

/** The text of a file in `assets`, next to `src` and `dist`: style sheets, and scripts that browsers run unchanged. */
export function readAsset(name: string): string {
  return readFileSync(new URL(`../../assets/${name}`, import.meta.url), "utf8");
}

/** The one style sheet of our pages. */
export const STYLE = `:root { color-scheme: light dark; ${declare(LIGHT)} ${declare(SIZES)} ${declare(SPACES)} }
@media (prefers-color-scheme: dark) {
  :root { ${declare(DARK)} }
}
${readAsset("pages.css")}`;
