import { createHash } from "node:crypto";
import { formatInstant } from "../domain/order/instant.ts";
import type { OutgoingFields } from "../domain/order/outgoing.ts";
import { writeChange } from "../changes/changeJson.ts";
import { redactOrder } from "../wire/redactOrder.ts";
import type { ChangeDelivery } from "./outgoingDelivery.sql.ts";

export interface OutgoingMessage {
  /**
   * The same in every attempt and replay, so that the receiver can detect repetitions. Derived from the message's
   * content, not from its position in the feed: it stays the same when the database moves.
   */
  readonly id: string;
  readonly body: Buffer;
}

const SHOWN_ORDER: Readonly<Record<OutgoingFields, (order: string) => string | null>> = {
  all: (order) => order,
  redacted: redactOrder,
  thin: () => null,
};

/** In the format of Standard Webhooks: `timestamp` is our time of the change, `data` as in the feed. */
export function writeMessage(
  { epoch, type, change }: ChangeDelivery,
  fields: OutgoingFields,
): OutgoingMessage {
  const text = writeChange(change, epoch, SHOWN_ORDER[fields]);
  const { changedAt, sourceId, reference, revision, version, verdict } = change;
  const head = JSON.stringify({ type, timestamp: formatInstant(changedAt), source: sourceId });
  return {
    id: makeId(sourceId, reference, revision, version, verdict),
    body: Buffer.from(`${head.slice(0, -1)},"data":${text}}`),
  };
}

function makeId(...parts: readonly (string | number | bigint)[]): string {
  const digest = createHash("sha256")
    .update(JSON.stringify(parts.map(String)))
    .digest("hex");
  return `msg_${digest.slice(0, 32)}`;
}
