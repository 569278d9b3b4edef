import { createHash } from "node:crypto";
import { formatInstant } from "../domain/order/instant.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { OutgoingFields } from "../domain/order/outgoing.ts";
import { writeChange } from "../changes/changeJson.ts";
import { writeFeedCursor } from "../changes/feedCursor.ts";
import { redactOrder } from "../wire/redactOrder.ts";
import type { ChangeDelivery, MissedChanges } from "./outgoingDelivery.sql.ts";

export interface OutgoingMessage {
  /**
   * The same in every attempt and replay, so that the receiver can detect repetitions. Derived from the message's
   * content, not from its position in the feed: it stays the same when the database moves.
   */
  readonly id: string;
  readonly body: Buffer;
}

/** The message about a change, or about changes that were missed. */
export function writeMessage(due: ChangeDelivery | MissedChanges, fields: OutgoingFields): OutgoingMessage {
  return due.kind === "missed" ? writeMissed(due) : writeChanged(due, fields);
}

const SHOWN_ORDER: Readonly<Record<OutgoingFields, (order: string) => string | null>> = {
  all: (order) => order,
  redacted: redactOrder,
  thin: () => null,
};

/** In the format of Standard Webhooks: `timestamp` is our time of the change, `data` as in the feed. */
function writeChanged({ epoch, type, change }: ChangeDelivery, fields: OutgoingFields): OutgoingMessage {
  const text = writeChange(change, epoch, SHOWN_ORDER[fields]);
  const { changedAt, sourceId, reference, revision, version, verdict } = change;
  const head = JSON.stringify({ type, timestamp: formatInstant(changedAt), source: sourceId });
  return {
    id: makeId(sourceId, reference, revision, version, verdict),
    body: Buffer.from(`${head.slice(0, -1)},"data":${text}}`),
  };
}

function writeMissed({ epoch, sourceId, after, through, foundAt }: MissedChanges): OutgoingMessage {
  const message = {
    type: "changes.missed",
    timestamp: formatInstant(foundAt),
    source: sourceId,
    data: {
      after: writeFeedCursor({ epoch, position: after, digest: "" }),
      through: writeFeedCursor({ epoch, position: through, digest: "" }),
    },
  };
  return { id: makeId(sourceId, "missed", after, through), body: Buffer.from(JSON.stringify(message)) };
}

function makeId(...parts: readonly (string | number | bigint)[]): string {
  const digest = createHash("sha256")
    .update(JSON.stringify(parts.map(String)))
    .digest("hex");
  return `msg_${digest.slice(0, 32)}`;
}

/** A message about nothing, to try an endpoint with. */
export function writeTestMessage({ sourceId, now }: { sourceId: string; now: Instant }): OutgoingMessage {
  const message = { type: "test", timestamp: formatInstant(now), source: sourceId, data: {} };
  return { id: makeId(sourceId, "test", now), body: Buffer.from(JSON.stringify(message)) };
}
