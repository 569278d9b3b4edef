/** The value of a JSON text; undefined if it is none. For errors that must not quote the text, as those of JSON.parse do. */
export function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
