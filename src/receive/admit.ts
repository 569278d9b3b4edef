import { hash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { millisFromInstant } from "../domain/order/instant.ts";
import type { EventReader } from "../domain/source/orderSource.ts";
import type { IncomingEvent } from "./inbox.sql.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import type { SignatureRefusal } from "../signature/verifier.ts";
import type { Verifier } from "../signature/verifier.ts";
import type { ReceiveOutcome } from "./receiver.ts";

// From a request to an authenticated event: the head, the raw bytes, the signature, the key under which it is stored.

const JSON_TYPE = /^\s*(?:application\/json|[\w.!#$&^+-]+\/[\w.!#$&^+-]+\+json)\s*(?:;|$)/i;
/**
 * This much of each body is free: events are a few kilobytes, and Standard Webhooks advises senders to stay below 20.
 * So a small event is never refused because of others; the limit on connections bounds the total.
 */
const FREE_BYTES = 16_384;
const EVENT_ID_LENGTH_MAX = 255;

/** Refuses what can be refused before the body is read: method, encoding and type. */
export function refuseByHead({ method, headers }: IncomingMessage): ReceiveOutcome | undefined {
  if (method !== "POST") return "method_not_allowed";
  const encoding = (headers["content-encoding"] ?? "identity").trim().toLowerCase();
  if (encoding !== "identity") return "unsupported_encoding";
  return JSON_TYPE.test(headers["content-type"] ?? "") ? undefined : "unsupported_type";
}

/** Bytes that all bodies together may use, beyond the free part of each. */
export interface BodyBudget {
  /** False, and nothing is taken, if there is no room. */
  readonly take: (bytes: number) => boolean;
  readonly giveBack: (bytes: number) => void;
}

export function makeBodyBudget(maxBytes: number): BodyBudget {
  let usedBytes = 0;
  return {
    take(bytes) {
      if (usedBytes + bytes > maxBytes) return false;
      usedBytes += bytes;
      return true;
    },
    giveBack: (bytes) => void (usedBytes -= bytes),
  };
}

/** The part of a body that counts. */
const countedBytes = (bytes: number) => Math.max(0, bytes - FREE_BYTES);

/** A complete body; `release` returns its share of the budget. */
interface ReadBody {
  readonly bytes: Buffer;
  readonly release: () => void;
}

/** The body of a request, or the reason why there is none. */
type BodyReading = ReadBody | "too_large" | "overloaded" | "aborted" | "body_already_read";

interface ReadBodyOptions {
  readonly limitBytes: number;
  readonly budget: BodyBudget;
}

/**
 * Reads the body as raw bytes, at most `limitBytes`.
 *
 * What a parser in front of us has read is lost, and gives "body_already_read". "overloaded": the budget has no room. Never
 * rejects.
 */
export function receiveBody(req: IncomingMessage, options: ReadBodyOptions): Promise<BodyReading> {
  const { limitBytes } = options;
  if (req.readableDidRead || req.readableEnded) return Promise.resolve("body_already_read");
  if (Number(req.headers["content-length"] ?? 0) > limitBytes) return Promise.resolve("too_large");
  return new Promise((resolve) => collect(req, options, resolve));
}

function collect(
  req: IncomingMessage,
  { limitBytes, budget }: ReadBodyOptions,
  resolve: (reading: BodyReading) => void,
): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  const release = () => budget.giveBack(countedBytes(bytes));

  function finish(reading: BodyReading): void {
    req.off("data", take).off("end", end).off("close", abort);
    if (typeof reading === "string") release();
    resolve(reading);
  }
  function take(chunk: Buffer): void {
    const longer = bytes + chunk.length;
    if (longer > limitBytes) refuse("too_large");
    else if (!budget.take(countedBytes(longer) - countedBytes(bytes))) refuse("overloaded");
    else {
      bytes = longer;
      chunks.push(chunk);
    }
  }
  function refuse(reading: BodyReading): void {
    finish(reading);
    chunks.length = 0;
    // The rest is discarded, until the server's requestTimeout: closing the connection now would reset it, and the
    // sender might never see the reason.
    req.resume();
  }
  const end = () =>
    finish({ bytes: chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks, bytes), release });
  const abort = () => finish("aborted");

  req.on("data", take).on("end", end).on("close", abort);
}

/** An authenticated event, or why the request is refused. */
export type Admission =
  | { readonly event: IncomingEvent }
  | { readonly outcome: ReceiveOutcome; readonly reason?: SignatureRefusal };

/** Verifies the bytes, and only then reads the event's id from them. */
export function admitEvent(
  req: IncomingMessage,
  deps: Pick<EventReader, "readEventId"> & {
    sourceId: string;
    verifier: Verifier;
    clock: Clock;
    body: Buffer;
  },
): Admission {
  const { sourceId, verifier, clock, body, readEventId } = deps;
  if (body.length === 0) return { outcome: "empty_body" };
  const nowSeconds = Math.floor(millisFromInstant(clock.now()) / 1_000);
  const verdict = verifier.verify({ headersDistinct: listHeaders(req), body, nowSeconds });
  if (!verdict.valid) return { outcome: outcomeOf(verdict.reason), reason: verdict.reason };
  const bodyHash = hash("sha256", body, "buffer");
  const eventId = chooseEventId({ bodyId: readEventId(body), bodyHash, headerId: verdict.id });
  return { event: { sourceId, eventId, body, bodyHash, secretIndex: verdict.secretIndex } };
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
  /** As in the body. */
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
