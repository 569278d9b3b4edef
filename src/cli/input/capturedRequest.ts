import { z } from "zod";
import { ConfigurationError } from "../../domain/errors.ts";
import type { CapturedRequest } from "../../signature/identify.ts";

const REQUEST_LINE = /^[A-Z]{3,10} (\S+) HTTP\/\d(?:\.\d)?$/;
const HEADER_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*$/;
const HEADERS_END = /\r?\n\r?\n/;
const HOW =
  "Give the raw HTTP request (request line, headers, empty line, body), or JSON { headers, body } with the body as text, or as base64 in bodyBase64.";

const capturedSchema = z
  .object({
    headers: z.record(z.string(), z.union([z.string(), z.array(z.string())])),
    body: z.string().optional(),
    bodyBase64: z.base64().optional(),
    target: z.string().startsWith("/").optional(),
  })
  .refine(({ body, bodyBase64 }) => (body === undefined) !== (bodyBase64 === undefined));

/**
 * Parses a captured request: raw HTTP text, or JSON `{ headers, body }` or `{ headers, bodyBase64 }`, with path and
 * query as `target` if they are known.
 *
 * Throws ConfigurationError for anything else. A body given as a JSON object is refused: the signature covers its exact
 * bytes, and parsing loses them. Bytes after Content-Length, such as an editor's newline, are cut off.
 */
export function parseCapturedRequest(bytes: Buffer): CapturedRequest {
  const start = bytes.toString("latin1", 0, 1_024).trimStart();
  return start.startsWith("{") ? parseJson(bytes) : parseHttp(bytes);
}

function parseJson(bytes: Buffer): CapturedRequest {
  let json: unknown;
  try {
    json = JSON.parse(bytes.toString("utf8"));
  } catch (error) {
    throw new ConfigurationError("The captured request starts like JSON but is not valid JSON.", {
      cause: error,
      fix: HOW,
    });
  }
  const parsed = capturedSchema.safeParse(json);
  if (!parsed.success) {
    const isObject = typeof (json as { body?: unknown }).body === "object";
    const problem = isObject
      ? "The captured body is a JSON object. The signature covers its original bytes, which cannot be restored from it."
      : "The captured request is not { headers, body }.";
    throw new ConfigurationError(problem, { fix: HOW });
  }
  const { headers, body, bodyBase64, target } = parsed.data;
  const headersDistinct: NodeJS.Dict<string[]> = {};
  for (const [name, value] of Object.entries(headers)) {
    (headersDistinct[name.toLowerCase()] ??= []).push(...(typeof value === "string" ? [value] : value));
  }
  const decoded =
    bodyBase64 === undefined ? Buffer.from(body ?? "", "utf8") : Buffer.from(bodyBase64, "base64");
  return { headersDistinct, body: decoded, target };
}

function parseHttp(bytes: Buffer): CapturedRequest {
  // Decode one character per byte, as Node does for headers, so that positions in the text are positions in the bytes.
  const text = bytes.toString("latin1");
  const end = HEADERS_END.exec(text);
  const lines = text.slice(0, end?.index).split(/\r?\n/);
  const target = REQUEST_LINE.exec(lines[0] ?? "")?.[1];
  if (target !== undefined) lines.shift();
  const headersDistinct: NodeJS.Dict<string[]> = {};
  for (const line of lines) {
    const [, name, value] = HEADER_LINE.exec(line) ?? [];
    if (name === undefined || value === undefined) {
      throw new ConfigurationError("The captured request has a malformed header line.", {
        fix: HOW,
      });
    }
    (headersDistinct[name.toLowerCase()] ??= []).push(value);
  }
  if (!end) throw new ConfigurationError("The captured request ends within its headers.", { fix: HOW });
  const body = bytes.subarray(end.index + end[0].length);
  const length = Number(headersDistinct["content-length"]?.[0] ?? Number.NaN);
  return { headersDistinct, body: body.length > length ? body.subarray(0, length) : body, target };
}
