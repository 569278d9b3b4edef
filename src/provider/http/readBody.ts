import { tryParseJson } from "../../domain/parseJson.ts";
import { readBytes } from "../../runtime/http/readBytes.ts";

/** Larger than any page of the spec's 200 orders; reading further would only fill the memory. */
export const BODY_BYTES_MAX = 10 * 1024 * 1024;

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;

/** An unusable body; `message` names the kind of error, never the text. */
export class UnreadableBodyError extends Error {
  override readonly name = "UnreadableBodyError";
}

/** Read in chunks, up to BODY_BYTES_MAX after decompression. Throws UnreadableBodyError, or network errors. */
export async function readJsonBody(response: Response): Promise<{ text: string; value: unknown }> {
  if (!JSON_TYPE.test(response.headers.get("content-type") ?? "")) {
    await discardBody(response);
    throw new UnreadableBodyError("the content type is not JSON");
  }
  const bytes = await readBytes(response.body, BODY_BYTES_MAX);
  if (bytes === undefined) throw new UnreadableBodyError(`the body exceeds ${BODY_BYTES_MAX} bytes`);
  const text = decode(bytes);
  const value = tryParseJson(text);
  if (value === undefined) throw new UnreadableBodyError("the body is not JSON");
  return { text, value };
}

/** Releases the connection without reading further. */
export async function discardBody(response: Response): Promise<void> {
  // A body that has already failed needs no release.
  await response.body?.cancel().catch(() => undefined);
}

function decode(bytes: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new UnreadableBodyError("the body is not UTF-8");
  }
}
