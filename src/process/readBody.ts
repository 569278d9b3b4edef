import type { IncomingMessage } from "node:http";

/** Says what to do where another program has read a body before us and left something else than its bytes. */
export const BODY_ALREADY_READ =
  "Something before the mirror has read the body of this request. Mount the mirror before body parsers, or put express.raw() there, which keeps the bytes.";

/**
 * The bytes of a body that a parser in front of us has read: a Buffer in `request.body` is the body. Undefined where
 * nobody has read it yet; "lost" where its bytes are gone, because a body that was parsed cannot be verified or passed
 * on.
 */
export function takeReadBody(request: IncomingMessage): Buffer | "lost" | undefined {
  if (!request.readableDidRead && !request.readableEnded) return undefined;
  const { body } = request as { body?: unknown };
  return Buffer.isBuffer(body) ? body : "lost";
}
