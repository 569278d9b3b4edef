import type { IncomingMessage } from "node:http";
import { tryParseJson } from "../../domain/parseJson.ts";
import { readBytes } from "../../runtime/http/readBytes.ts";
import { refused } from "../api/errors.ts";

/** Assumed: the spec shows no size limit for bodies. */
const BODY_BYTES_MAX = 65_536;

/** The body as text. Throws payload_too_large; rejects if the client disconnects. */
export async function readText(request: IncomingMessage, bytesMax = BODY_BYTES_MAX): Promise<string> {
  // Must stay undestroyed, or the refusal of an oversized body could not be sent.
  const body = request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>;
  const bytes = await readBytes(body, bytesMax);
  if (bytes === undefined) {
    throw refused(413, "payload_too_large", `The body exceeds ${bytesMax} bytes.`, { Connection: "close" });
  }
  return bytes.toString("utf8");
}

/** The JSON body, undefined if there is none. Assumed: no Content-Type is needed, and bad JSON gets 400. */
export async function readBody(request: IncomingMessage): Promise<unknown> {
  const text = await readText(request);
  if (text.trim() === "") return undefined;
  const value = tryParseJson(text);
  if (value === undefined) throw refused(400, "invalid_json", "The body is not JSON.");
  return value;
}
