export const ENCODINGS = ["hex", "base64", "base64url"] as const;
export type Encoding = (typeof ENCODINGS)[number];

const HEX = /^[0-9a-fA-F]*$/;
const BASE64_KEY = /^[A-Za-z0-9+/]*={0,2}$/;

/**
 * The bytes that `text` encodes, or undefined when it is not exactly that encoding. Node's own decoder drops
 * unknown characters, so that a valid signature followed by junk would verify. Padding may be left out.
 */
export function decodeStrictly(text: string, encoding: Encoding): Buffer | undefined {
  if (encoding === "hex") {
    return text.length % 2 === 0 && HEX.test(text) ? Buffer.from(text, "hex") : undefined;
  }
  const bytes = Buffer.from(text, encoding);
  // Encoding it again must give the same text: this also refuses the other alphabet and stray bits at the end.
  const again = bytes.toString(encoding);
  if (again === text) return bytes;
  return withoutPadding(again) === text || padded(again) === text ? bytes : undefined;
}

/**
 * The key that base64 text encodes, as the senders' libraries read it: padding may be missing, and bits or one character
 * beyond the last byte are dropped. People truncate secrets more often than signatures, and both sides must then read
 * the same key.
 */
export function decodeBase64Key(text: string): Buffer | undefined {
  return BASE64_KEY.test(text) ? Buffer.from(text, "base64") : undefined;
}

function withoutPadding(base64: string): string {
  return base64.replace(/=+$/, "");
}

function padded(base64: string): string {
  return base64.padEnd(Math.ceil(base64.length / 4) * 4, "=");
}
