import { UnreadableSnapshotError } from "../domain/errors.ts";
import { addSeconds, tryParseInstant } from "../domain/order/instant.ts";
import type { Instant } from "../domain/order/instant.ts";
import { observeEvent } from "../domain/order/observation.ts";
import type { Snapshot } from "../domain/order/order.ts";
import type { PendingEvent } from "./inboxReads.sql.ts";
import { namesIn } from "../retention/mentions.ts";
import { readEnvelope } from "../wire/envelope.ts";
import { readReference, readSnapshot } from "../wire/order.ts";
import { rawMember } from "../wire/rawJson.ts";
import type { EventOrigin, QuarantineReason, Subject } from "./subject.ts";

export type Mode = "live" | "test";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const EVENT_TYPE_LENGTH_MAX = 255;
/** Clocks of the provider's servers may differ by less; decideDatedAhead lets an event go at the same distance. */
export const AHEAD_SECONDS_MAX = 300;

/**
 * What an authenticated event means for the mirror (spec, "Events"): an observation of an order, nothing
 * (`ignored`), or something that a person must look at (`quarantined`). Never throws: one bad event must not hold
 * up the others.
 *
 * The type of the event does not matter: whatever it is called, an order inside is an observation of that order.
 */
export function interpretEvent(event: PendingEvent, mode: Mode): Subject {
  const origin: EventOrigin = { inboxSeq: event.seq, eventId: event.eventId, eventType: null };
  const parsed = parseBody(event.body);
  if (parsed === undefined) {
    return quarantine(event, origin, { reason: "not_json", detail: "the body is not JSON in UTF-8" });
  }
  const envelope = readEnvelope(parsed.value);
  if (!envelope || Array.isArray(parsed.value)) {
    return quarantine(event, origin, { reason: "not_an_envelope", detail: "the body is not a JSON object" });
  }
  const typed: EventOrigin = { ...origin, eventType: storableType(envelope.type) };
  const order = rawMember(parsed.text, "data");
  if (typeof envelope.data !== "object" || envelope.data === null || order === undefined) {
    return quarantine(event, typed, { reason: "not_an_envelope", detail: "the envelope has no data object" });
  }
  if (!Object.hasOwn(envelope.data, "reference")) {
    return {
      kind: "ignored",
      sourceId: event.sourceId,
      via: "webhook",
      event: typed,
      reason: "not about an order",
      names: namesIn(event.body),
    };
  }
  return interpretOrder({ event, origin: typed, mode, envelope, raw: order });
}

function interpretOrder(deps: {
  event: PendingEvent;
  origin: EventOrigin;
  mode: Mode;
  envelope: NonNullable<ReturnType<typeof readEnvelope>>;
  raw: string;
}): Subject {
  const { event, origin, mode, envelope, raw } = deps;
  let snapshot: Snapshot;
  try {
    snapshot = readSnapshot(raw, envelope.data);
  } catch (error) {
    if (!(error instanceof UnreadableSnapshotError)) throw error;
    return quarantine(event, origin, {
      reason: "unreadable_order",
      detail: error.message,
      reference: readReference(envelope.data),
    });
  }
  const { reference, livemode } = snapshot.fields;
  const live = mode === "live";
  if ((envelope.livemode ?? live) !== live || (livemode ?? live) !== live) {
    const detail = `the event is of the other mode than its source, which is ${mode}`;
    return quarantine(event, origin, { reason: "wrong_mode", detail, reference });
  }
  const created = tryParseInstant(envelope.created);
  if (created === undefined) {
    return quarantine(event, origin, {
      reason: "unreadable_created",
      detail: "created is not a date-time",
      reference,
    });
  }
  const { providerNow } = event;
  if (providerNow !== null && snapshot.version > addSeconds(providerNow, AHEAD_SECONDS_MAX)) {
    const detail = "updatedAt lies ahead of the provider's clock; decided when its time has come";
    return quarantine(event, origin, { reason: "dated_ahead", detail, reference, version: snapshot.version });
  }
  const observation = observeEvent({ sourceId: event.sourceId, snapshot, created });
  return { kind: "observation", sourceId: event.sourceId, via: "webhook", event: origin, observation };
}

function parseBody(body: Buffer): { text: string; value: unknown } | undefined {
  try {
    const text = decoder.decode(body);
    return { text, value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

function storableType(type: string | null): string | null {
  return type?.replaceAll("\0", "").toWellFormed().slice(0, EVENT_TYPE_LENGTH_MAX) ?? null;
}

function quarantine(
  event: PendingEvent,
  origin: EventOrigin,
  why: { reason: QuarantineReason; detail: string; reference?: string | null; version?: Instant },
): Subject {
  const { reason, detail, reference = null, version } = why;
  const common = { sourceId: event.sourceId, via: "webhook", event: origin } as const;
  const names = reference === null ? namesIn(event.body) : null;
  return { kind: "quarantined", ...common, reason, detail, reference, version, names, raw: null };
}
