import { hash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { millisFromInstant } from "../domain/order/instant.ts";
import { readEventId } from "../wire/events.ts";
import type { Clock } from "../process/clock.ts";
import type { SignatureRefusal, Verifier } from "../signature/verifier.ts";
import type { ReceiveOutcome } from "./answers.ts";
import type { IncomingEvent } from "./inbox.sql.ts";
import type { RefusedRequest } from "./refusedRequests.ts";

// From raw bytes to an authenticated event: the signature, and the key under which the event is stored.

const EVENT_ID_LENGTH_MAX = 255;

/** An authenticated event, or why the request is refused. */
type Admission =
  | { readonly event: IncomingEvent }
  | { readonly outcome: ReceiveOutcome; readonly refused?: Pick<RefusedRequest, "reason" | "headers"> };

/** Verifies the bytes, and only then reads the event's id from them. */
export function admitEvent(deps: {
  sourceId: string;
  headers: NodeJS.Dict<string[]>;
  verifier: Verifier;
  clock: Clock;
  body: Buffer;
}): Admission {
  const { sourceId, headers, verifier, clock, body } = deps;
  if (body.length === 0) return { outcome: "empty_body" };
  const nowSeconds = Math.floor(millisFromInstant(clock.now()) / 1_000);
  const verdict = verifier.verify({ headersDistinct: headers, body, nowSeconds });
  if (!verdict.valid) {
    const { reason } = verdict;
    return { outcome: outcomeOf(reason), refused: { reason, headers } };
  }
  const bodyHash = hash("sha256", body, "buffer");
  const eventId = chooseEventId({ bodyId: readEventId(body), bodyHash, headerId: verdict.id });
  const { secretIndex } = verdict;
  const kept = keepHeaders(headers, verifier.headers);
  return { event: { sourceId, eventId, body, bodyHash, secretIndex, headers: kept } };
}

/** Headers that no sender uses for what identifies a person or a session. */
export const HARMLESS_HEADERS: readonly string[] = ["content-type", "user-agent"];
const SHOWN_LENGTH_MAX = 256;

/** Makes the JSON object of headers that is kept for the page of the event: what it is, and what its scheme read. */
function keepHeaders(headers: NodeJS.Dict<string[]>, ofScheme: readonly string[]): string {
  const kept: Record<string, string> = {};
  for (const name of [...HARMLESS_HEADERS, ...ofScheme]) {
    const values = headers[name];
    if (values !== undefined) kept[name] = values.join(", ").slice(0, SHOWN_LENGTH_MAX);
  }
  return JSON.stringify(kept);
}

/** A repeated header proves nothing, whichever of its values is right. */
function outcomeOf(reason: SignatureRefusal): ReceiveOutcome {
  return reason.endsWith("_repeated") ? "ambiguous_headers" : "unauthorized";
}

/**
 * Every value of every header, by its name in lower case. Node's own list is not used: in some supported releases
 * (20.19 among them) it throws if a header is called `__proto__`.
 */
export function listHeaders({ rawHeaders }: Pick<IncomingMessage, "rawHeaders">): NodeJS.Dict<string[]> {
  const headers = Object.create(null) as NodeJS.Dict<string[]>;
  for (let place = 0; place + 1 < rawHeaders.length; place += 2) {
    const name = (rawHeaders[place] ?? "").toLowerCase();
    (headers[name] ??= []).push(rawHeaders[place + 1] ?? "");
  }
  return headers;
}

/**
 * The key under which an event is stored: the id in its body if it is usable, else the id in the header of the
 * signature scheme, else the hash of its body. So everything authenticated has a key, even a body that is not JSON: its
 * meaning is decided when it is applied.
 *
 * @internal
 */
export function chooseEventId(event: {
  /** The id in the body. */
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
