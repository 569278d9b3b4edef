import { formatInstant } from "../domain/order/instant.ts";
import type { OutgoingType } from "../domain/order/outgoing.ts";
import type { Change } from "../changes/changeFeed.sql.ts";
import { writeChange } from "../changes/changeJson.ts";
import { writeFeedCursor } from "../changes/feedCursor.ts";

export interface OutgoingMessage {
  /** The same in every attempt and replay, so that the receiver can tell what it has had already. */
  readonly id: string;
  readonly body: Buffer;
}

/**
 * The message about a change, in the shape of Standard Webhooks: `type`, `timestamp` (our time of the change) and
 * `data`, which is the change as the feed tells it, and the source beside it.
 */
export function writeMessage(options: {
  epoch: string;
  type: OutgoingType;
  change: Change;
}): OutgoingMessage {
  const { epoch, type, change } = options;
  const head = JSON.stringify({ type, timestamp: formatInstant(change.changedAt), source: change.sourceId });
  const data = writeChange(change, writeFeedCursor(epoch, change.at));
  return {
    id: `msg_${epoch}_${change.at.position}`,
    body: Buffer.from(`${head.slice(0, -1)},"data":${data}}`),
  };
}
