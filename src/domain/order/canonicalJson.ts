import { floorTo, NANOS_PER_SECOND, tryParseInstant } from "./instant.ts";

/** Deeper nesting than any order has; recursion beyond it could exhaust the stack. */
export const JSON_DEPTH_MAX = 64;

const PLAIN = /^[ !#-[\]-~]*$/;

const MAY_BE_TIME = /^\d{4}-\d\d-\d\d[Tt ]\d\d:/;

/**
 * JSON text with object keys sorted by code unit and without white space. It is equal for values that differ only in
 * key order, white space, number format, or in how their date-times are written: with another offset, or with digits of
 * the second cut. Undefined if the value is nested deeper than JSON_DEPTH_MAX.
 */
export function canonicalJson(value: unknown): string | undefined {
  return write(value, 0);
}

function write(value: unknown, depth: number): string | undefined {
  if (depth > JSON_DEPTH_MAX) return undefined;
  if (typeof value === "string") return MAY_BE_TIME.test(value) ? writeTime(value) : quote(value);
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  return Array.isArray(value)
    ? writeArray(value, depth)
    : writeObject(value as Record<string, unknown>, depth);
}

function writeArray(values: readonly unknown[], depth: number): string | undefined {
  const parts: string[] = [];
  for (const value of values) {
    const text = write(value, depth + 1);
    if (text === undefined) return undefined;
    parts.push(text);
  }
  return `[${parts.join(",")}]`;
}

function writeObject(value: Record<string, unknown>, depth: number): string | undefined {
  const parts: string[] = [];
  for (const key of Object.keys(value).sort()) {
    const text = write(value[key], depth + 1);
    if (text === undefined) return undefined;
    parts.push(`${quote(key)}:${text}`);
  }
  return `{${parts.join(",")}}`;
}

/** Whole seconds since 1970, in nanoseconds: rounding cannot be recognized. */
function writeTime(text: string): string {
  const instant = tryParseInstant(text);
  return instant === undefined ? quote(text) : `"@${floorTo(instant, NANOS_PER_SECOND)}"`;
}

/** Most texts have nothing to escape, and JSON.stringify is slow for such short ones (measured). */
function quote(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(text);
}
