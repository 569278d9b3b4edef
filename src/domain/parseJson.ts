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

/** Refuses what is not UTF-8, and leaves out a byte order mark, which a receiver may ignore (RFC 8259, section 8.1). */
const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Decodes the text of a body that the provider sent; undefined if it is not UTF-8. */
export function tryDecodeText(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}
