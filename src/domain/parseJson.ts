/**
 * The value of a JSON text; undefined if it is none. For errors that must not quote the text, as those of JSON.parse
 * do.
 */
export function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A part of an address without its percent signs; undefined if they are malformed. */
export function tryDecode(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}
