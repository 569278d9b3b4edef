const EVENT_ID_LENGTH_MAX = 255;

/**
 * The key under which an event is stored: the id in its body if it is usable, else the id in the header of the
 * signature scheme, else the hash of its body. So everything authenticated has a key, even a body that is not JSON: its
 * meaning is decided when it is applied.
 */
export function chooseEventId(event: {
  /** As in the body. */
  readonly bodyId: unknown;
  readonly bodyHash: Buffer;
  readonly headerId: string | null;
}): string {
  if (isKey(event.bodyId)) return event.bodyId;
  if (isKey(event.headerId)) return event.headerId;
  return `sha256:${event.bodyHash.toString("hex")}`;
}

function isKey(id: unknown): id is string {
  if (typeof id !== "string" || id.length < 1 || id.length > EVENT_ID_LENGTH_MAX) return false;
  // Postgres' text cannot hold NUL, and half a surrogate pair would be stored as another character.
  return !id.includes("\0") && id.isWellFormed();
}
