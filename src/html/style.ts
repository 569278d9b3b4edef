import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

/** The text of a file in `assets`, next to `src` and `dist`: style sheets, and scripts that browsers run unchanged. */
export function readAsset(name: string): string {
  return readFileSync(new URL(`../../assets/${name}`, import.meta.url), "utf8");
}

const { resolve } = createRequire(import.meta.url);

/** The text of a package's file. */
export function readPackageFile(name: string): string {
  return readFileSync(resolve(name), "utf8");
}

/** Pico's style sheet. It is copied from its package, which has 20 MB, by a test. */
const BASE = readAsset("pico.css").replace(/^@charset "UTF-8";/, "");

/** The one style sheet of our pages: Pico below our values and rules, which win over it whatever their selectors. */
export const STYLE = `@layer base {
${BASE}
}
${readAsset("pages.css")}`;
