import { PRESETS } from "../presets.ts";
import { loadScheme, parseScheme } from "../scheme.ts";
import type { Scheme } from "../scheme.ts";

/** The preset's name where the scheme is exactly one; else JSON of the fields that differ from the defaults. */
export function describeSetting(scheme: Scheme): { setting: string; preset: string | null } {
  const whole = JSON.stringify(scheme);
  const preset = Object.keys(PRESETS).find((name) => JSON.stringify(loadScheme(name)) === whole);
  if (preset !== undefined) return { setting: preset, preset };
  let fields: Record<string, unknown> = { ...scheme };
  // A field that can be left out without changing the scheme is redundant.
  for (const name of Object.keys(fields)) {
    const { [name]: left, ...others } = fields;
    if (left !== undefined && isSame(others, whole)) fields = others;
  }
  // In single quotes, as in `.env`, a single quote ends the value.
  return { setting: JSON.stringify(fields).replaceAll("'", String.raw`\u0027`), preset: null };
}

function isSame(fields: object, whole: string): boolean {
  try {
    return JSON.stringify(parseScheme(fields)) === whole;
  } catch {
    return false;
  }
}
