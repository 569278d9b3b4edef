import { hash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { millisFromInstant } from "../../domain/order/instant.ts";
import type { EventReader } from "../../domain/source/orderSource.ts";
import type { IncomingEvent } from "../commit/inbox.sql.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import type { SignatureRefusal } from "../../signature/verifier.ts";
import type { Verifier } from "../../signature/verifier.ts";
import type { ReceiveOutcome } from "./answers.ts";
import { chooseEventId } from "./eventId.ts";

const JSON_TYPE = /^\s*(?:application\/json|[\w.!#$&^+-]+\/[\w.!#$&^+-]+\+json)\s*(?:;|$)/i;

/** An authenticated event, or why the request is refused. */
export type Admission =
  | { readonly event: IncomingEvent }
  | { readonly outcome: ReceiveOutcome; readonly reason?: SignatureRefusal };

/** Refuses what can be refused before the body is read: method, encoding and type. */
export function refuseByHead({ method, headers }: IncomingMessage): ReceiveOutcome | undefined {
  if (method !== "POST") return "method_not_allowed";
  const encoding = (headers["content-encoding"] ?? "identity").trim().toLowerCase();
  if (encoding !== "identity") return "unsupported_encoding";
  return JSON_TYPE.test(headers["content-type"] ?? "") ? undefined : "unsupported_type";
}

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
 * (20.19 among them) it throws if a header is called `__proto__`. @internal
 */
export function listHeaders({ rawHeaders }: Pick<IncomingMessage, "rawHeaders">): NodeJS.Dict<string[]> {
  const headers = Object.create(null) as NodeJS.Dict<string[]>;
  for (let place = 0; place + 1 < rawHeaders.length; place += 2) {
    const name = (rawHeaders[place] ?? "").toLowerCase();
    (headers[name] ??= []).push(rawHeaders[place + 1] ?? "");
  }
  return headers;
}
