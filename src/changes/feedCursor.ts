import type { FeedCursor, WrittenCursor } from "./changeFeed.sql.ts";

const CURSOR = /^([0-9a-f]{12})\.(\d{1,19})(?:\.([0-9a-f]{8}))?$/;
/** Postgres' greatest bigint. */
const POSITION_MAX = 2n ** 63n - 1n;

/** A position as text for an address or an SSE id. Opaque: clients only return it. */
export function writeFeedCursor({ epoch, position, digest }: WrittenCursor): string {
  return digest === "" ? `${epoch}.${position}` : `${epoch}.${position}.${digest}`;
}

/** Parses a cursor of writeFeedCursor; undefined for any other text. */
export function readFeedCursor(text: string): FeedCursor | undefined {
  const [, epoch, digits, digest = ""] = CURSOR.exec(text) ?? [];
  if (epoch === undefined || digits === undefined) return undefined;
  const position = BigInt(digits);
  return position > POSITION_MAX ? undefined : { epoch, position, digest };
}
