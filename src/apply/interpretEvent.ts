import { addSeconds } from "../domain/order/instant.ts";
import type { Instant } from "../domain/order/instant.ts";
import { CLOCK_TRUST_SECONDS, observeEvent } from "../domain/order/observation.ts";
import type { EventReader, Mode, SourceEvent } from "../domain/source/orderSource.ts";
import type { PendingEvent } from "./inboxReads.sql.ts";
import type { EventOrigin, QuarantineReason, Subject } from "./subject.ts";

const EVENT_TYPE_LENGTH_MAX = 255;

/**
 * The meaning of an authenticated event for the mirror: an observation of an order, nothing (`ignored`), or input that
 * a person must inspect (`quarantined`). Never throws: one bad event must not delay the others.
 */
export function interpretEvent(
  event: PendingEvent,
  { mode, readEvent }: Pick<EventReader, "readEvent"> & { readonly mode: Mode },
): Subject {
  const read = readEvent(event.body);
  const { sourceId } = event;
  const origin = { inboxSeq: event.seq, eventId: event.eventId, eventType: storableType(read.type) };
  if (read.kind === "unreadable") return quarantine(event, origin, read);
  if (read.kind === "order") return interpretOrder(event, { origin, mode, read });
  return { kind: "ignored", sourceId, via: "webhook", event: origin, reason: "not about an order" };
}

function interpretOrder(
  event: PendingEvent,
  deps: { origin: EventOrigin; mode: Mode; read: SourceEvent & { kind: "order" } },
): Subject {
  const { origin, mode, read } = deps;
  const { snapshot, created } = read;
  const { reference, livemode } = snapshot.fields;
  const live = mode === "live";
  if ((read.livemode ?? live) !== live || (livemode ?? live) !== live) {
    const detail = `the event belongs to the other mode; its source is ${mode}`;
    return quarantine(event, origin, { reason: "wrong_mode", detail, reference });
  }
  if (created === undefined) {
    return quarantine(event, origin, {
      reason: "unreadable_created",
      detail: "created is not a date-time",
      reference,
    });
  }
  if (snapshot.version > addSeconds(event.databaseNow, CLOCK_TRUST_SECONDS)) {
    const detail = "updatedAt is more than a minute ahead of the database's clock";
    const { version } = snapshot;
    const { status } = snapshot.fields;
    return quarantine(event, origin, { reason: "dated_ahead", detail, reference, version, status });
  }
  const observation = observeEvent({ sourceId: event.sourceId, snapshot, created });
  const place = event.body.indexOf(snapshot.raw);
  const rawStart = place === -1 ? undefined : place + 1;
  return {
    kind: "observation",
    sourceId: event.sourceId,
    via: "webhook",
    event: origin,
    observation,
    rawStart,
  };
}

function storableType(type: string | null): string | null {
  return type?.replaceAll("\0", "").toWellFormed().slice(0, EVENT_TYPE_LENGTH_MAX) ?? null;
}

function quarantine(
  event: PendingEvent,
  origin: EventOrigin,
  why: {
    reason: QuarantineReason;
    detail: string;
    reference?: string | null;
    version?: Instant;
    status?: string | undefined;
  },
): Subject {
  const { reason, detail, reference = null, version, status } = why;
  const common = { sourceId: event.sourceId, via: "webhook", event: origin } as const;
  return { kind: "quarantined", ...common, reason, detail, reference, version, status, raw: null };
}
