import { UnreadableSnapshotError } from "../domain/errors.ts";
import { tryDecodeText, tryParseJson } from "../domain/parseJson.ts";
import { tryParseInstant, type Instant } from "../domain/order/instant.ts";
import type { Snapshot } from "../domain/order/order.ts";
import { membersOf, readReference, readSnapshot } from "./order.ts";
import { rawMember } from "./rawJson.ts";

/** The content of an authenticated event. */
export type ReceivedEvent = {
  /** The provider's name for this kind of event; null if it gives none. */
  readonly type: string | null;
} & (
  | {
      readonly kind: "order";
      readonly created: Instant | undefined;
      /** Null if the event does not say. */
      readonly livemode: boolean | null;
      readonly snapshot: Snapshot;
    }
  | { readonly kind: "other" }
  | {
      readonly kind: "unreadable";
      readonly reason: "not_json" | "not_an_envelope" | "unreadable_order";
      readonly detail: string;
      readonly reference: string | null;
    }
);

/**
 * Reads the id that stays the same when the provider sends an event again, as in the body; anything if there is none.
 */
export function readEventId(body: Buffer): unknown {
  return membersOf(parseBody(body)?.value)["id"];
}

/**
 * Reads an event as leniently as it can: whatever its type is called, an order inside is an observation of that order.
 * Never throws: one bad event must not delay the others.
 */
export function readEvent(body: Buffer): ReceivedEvent {
  const parsed = parseBody(body);
  if (parsed === undefined) return unreadable("not_json", "the body is not JSON in UTF-8");
  const { text, value } = parsed;
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return unreadable("not_an_envelope", "the body is not a JSON object");
  }
  const { type: name, created, livemode: mode, data } = membersOf(value);
  const type = typeof name === "string" ? name : null;
  const livemode = typeof mode === "boolean" ? mode : null;
  const raw = rawMember(text, "data");
  if (typeof data !== "object" || data === null || raw === undefined) {
    return { ...unreadable("not_an_envelope", "the envelope has no data object"), type };
  }
  if (!Object.hasOwn(data, "reference")) return { kind: "other", type };
  try {
    const snapshot = readSnapshot(raw, data);
    return { kind: "order", type, created: tryParseInstant(created), livemode, snapshot };
  } catch (error) {
    if (!(error instanceof UnreadableSnapshotError)) throw error;
    return { ...unreadable("unreadable_order", error.message), type, reference: readReference(data) };
  }
}

function unreadable(reason: "not_json" | "not_an_envelope" | "unreadable_order", detail: string) {
  return { kind: "unreadable", type: null, reason, detail, reference: null } as const;
}

function parseBody(body: Buffer): { text: string; value: unknown } | undefined {
  const text = tryDecodeText(body);
  if (text === undefined) return undefined;
  const value = tryParseJson(text);
  return value === undefined ? undefined : { text, value };
}
