import { z } from "zod";
import { UnreadableSnapshotError } from "../domain/errors.ts";
import { tryDecodeText, tryParseJson } from "../domain/parseJson.ts";
import { tryParseInstant } from "../domain/order/instant.ts";
import type { EventReader, SourceEvent } from "../domain/source/orderSource.ts";
import { readReference, readSnapshot } from "./order.ts";
import { rawMember } from "./rawJson.ts";

/** Whatever the type of an event is called, an order inside is an observation of that order. */
export const deliveryEvents: EventReader = { readEventId, readEvent };

function readEventId(body: Buffer): unknown {
  const value = parseBody(body)?.value;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  return (value as { id?: unknown }).id;
}

function readEvent(body: Buffer): SourceEvent {
  const parsed = parseBody(body);
  if (parsed === undefined) return unreadable("not_json", "the body is not JSON in UTF-8");
  const envelope = readEnvelope(parsed.value);
  if (!envelope || Array.isArray(parsed.value)) {
    return unreadable("not_an_envelope", "the body is not a JSON object");
  }
  const { type, data, livemode } = envelope;
  const raw = rawMember(parsed.text, "data");
  if (typeof data !== "object" || data === null || raw === undefined) {
    return { ...unreadable("not_an_envelope", "the envelope has no data object"), type };
  }
  if (!Object.hasOwn(data, "reference")) return { kind: "other", type };
  try {
    const snapshot = readSnapshot(raw, data);
    return { kind: "order", type, created: tryParseInstant(envelope.created), livemode, snapshot };
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

/** The envelope of an event (spec, "Events"), as a provider must send it. @internal */
export const envelopeSchema = z.looseObject({
  id: z.string(),
  type: z.string(),
  created: z.string(),
  livemode: z.boolean(),
  data: z.looseObject({ reference: z.string() }),
});

/** Schema of an event, as lenient as the mirror: an event is refused only if nothing can be read from it. */
const readableEnvelope = z.object({
  id: z.string().nullable().catch(null),
  type: z.string().nullable().catch(null),
  created: z.string().nullable().catch(null),
  livemode: z.boolean().nullable().catch(null),
  data: z.unknown(),
});
type ReadEnvelope = z.infer<typeof readableEnvelope>;

/** The envelope's parts, null where absent or of another type; undefined when `value` is not an object. */
function readEnvelope(value: unknown): ReadEnvelope | undefined {
  const result = readableEnvelope.safeParse(value);
  return result.success ? result.data : undefined;
}
