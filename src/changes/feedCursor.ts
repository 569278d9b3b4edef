import { FEED_START } from "./changeFeed.sql.ts";
import type { FeedPosition } from "./changeFeed.sql.ts";

/** A place in the feed as readers keep it. */
export interface FeedCursor {
  /** What the position holds for; null for the beginning, which is one in every epoch. */
  readonly epoch: string | null;
  readonly at: FeedPosition;
}

export const FEED_BEGINNING: FeedCursor = { epoch: null, at: FEED_START };

const CURSOR = /^([0-9a-f]{12})\.(\d{1,19})\.(\d{1,19})$/;
/** What Postgres' bigint and xid8 both hold. */
const NUMBER_MAX = 2n ** 63n - 1n;

/** A position as text for an address or an SSE id. Opaque: clients only hand it back. */
export function writeFeedCursor(epoch: string, { tx, position }: FeedPosition): string {
  return `${epoch}.${tx}.${position}`;
}

/** The cursor that writeFeedCursor wrote, or undefined for any other text. */
export function readFeedCursor(text: string): FeedCursor | undefined {
  const [, epoch, tx, position] = CURSOR.exec(text) ?? [];
  if (epoch === undefined || tx === undefined || position === undefined) return undefined;
  const at = { tx: BigInt(tx), position: BigInt(position) };
  return at.tx > NUMBER_MAX || at.position > NUMBER_MAX ? undefined : { epoch, at };
}
