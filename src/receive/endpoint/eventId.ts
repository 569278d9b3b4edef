import { isUtf8 } from "node:buffer";

const EVENT_ID_LENGTH_MAX = 255;
/**
 * The key under which an event is stored: its envelope's `id` where that can be a key, else the id that its
 * signature scheme sends in a header, else the hash of its body. So everything authenticated has a key, also a
 * body that is not JSON: what to make of it is decided when it is applied.
 */
export function chooseEventId(event: {
  readonly body: Buffer;
  readonly bodyHash: Buffer;
  readonly headerId: string | null;
}): string {
  const envelopeId = readEnvelopeId(event.body);
  if (isKey(envelopeId)) return envelopeId;
  if (isKey(event.headerId)) return event.headerId;
  return `sha256:${event.bodyHash.toString("hex")}`;
}

function isKey(id: unknown): id is string {
  if (typeof id !== "string" || id.length < 1 || id.length > EVENT_ID_LENGTH_MAX) return false;
  // Postgres' text holds no NUL, and half a surrogate pair would be stored as another character.
  return !id.includes("\0") && id.isWellFormed();
}

function readEnvelopeId(body: Buffer): unknown {
  if (!isUtf8(body)) return undefined;
  try {
    const envelope: unknown = JSON.parse(body.toString("utf8"));
    if (typeof envelope !== "object" || envelope === null || Array.isArray(envelope)) return undefined;
    return (envelope as { id?: unknown }).id;
  } catch {
    return undefined;
  }
}
