import type { IncomingMessage, ServerResponse } from "node:http";
import { OrderMirrorError } from "../domain/errors.ts";
import type { Clock } from "../process/clock.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import type { Verifier } from "../signature/verifier.ts";
import { admitEvent, listHeaders } from "./admission.ts";
import {
  makeRefusalLog,
  sendAnswer,
  writeAnswer,
  type Ending,
  type ReceiveOutcome,
  type ReceiverAnswer,
} from "./answers.ts";
import { makeBodyBudget, receiveBody, takeBytes, type BodyBudget, type BodyReading } from "./callBody.ts";
import type { StoreReceipt } from "./groupCommit.ts";
import type { IncomingEvent } from "./inbox.sql.ts";
import type { RefusedRequest } from "./refusedRequests.ts";

/*
 * The webhook endpoint. It promises: 200 only for an event that is committed to the inbox, and nothing unauthenticated
 * in the database. Everything authenticated is stored, even if it is not JSON or of an unknown type: that is not the
 * sender's concern. 4xx is only for what can never be accepted; our own faults are 5xx, which senders retry.
 * `makeReceiver` reads the body (callBody.ts), verifies it (admission.ts), commits (groupCommit.ts, inbox.sql.ts),
 * answers (answers.ts), and then notifies the workers.
 */

/** Events are a few kilobytes; Standard Webhooks advises senders to stay below 20. */
const BODY_LIMIT_BYTES = 1_048_576;
/** For all requests together, excluding the first kilobytes of each (see BodyBudget). */
const BODIES_LIMIT_BYTES = 64 * 1_048_576;
const WEBHOOK_PATH = /^\/webhooks\/([^/?#]+)\/?(?:\?|$)/;

const JSON_TYPE = /^\s*(?:application\/json|[\w.!#$&^+-]+\/[\w.!#$&^+-]+\+json)\s*(?:;|$)/i;

/** The user agent of `doctor`, whose unsigned calls are no evidence that the provider signs in another way. */
export const EXAMINER = "order-mirror-doctor";

/** The end of a call to the webhook endpoint. */
export interface CallEnd extends Pick<Ending, "outcome" | "reason"> {
  /** Null if no source has the address. */
  readonly sourceId: string | null;
  /** From the arrival of the whole request to the decision: a slow sender is not our slowness. */
  readonly durationMs: number;
}

export interface ReceiverDeps {
  /** Verifiers by source id, as in the address `/webhooks/:source`. A source that is not listed has no address. */
  readonly sources: ReadonlyMap<string, { readonly verifier: Verifier | null }>;
  /** Resolves once the event is committed; `seq` is null if it was already there. */
  readonly store: (event: IncomingEvent) => Promise<StoreReceipt>;
  /** Notifies the workers of new inbox positions; must neither throw nor wait. */
  readonly notify: (seqs: readonly number[]) => void;
  /** Called with the end of each call; must neither throw nor wait. */
  readonly onEnd?: (end: CallEnd) => void;
  /** Called with each request whose signature does not verify; must neither throw nor wait. */
  readonly onRefused?: ((refused: RefusedRequest) => void) | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /** For tests; the product uses the defaults. */
  readonly limits?: { readonly bodyBytes?: number; readonly bodiesBytes?: number };
}

/** A call that a framework without Node's requests has taken. */
export interface ReceivedCall {
  readonly source: string;
  /** None: a test event of AWS has null. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>> | Headers | null;
  /** The body as it came: signatures cover the bytes. A text is taken as UTF-8. */
  readonly body: Uint8Array | string;
}

export interface Receiver {
  /** Answers `POST /webhooks/:source`, and any other address with 404. */
  (req: IncomingMessage, res: ServerResponse): void;
  /** Receives a call as the handler does, and resolves with the answer. Never rejects. */
  readonly receive: (call: ReceivedCall) => Promise<ReceiverAnswer>;
  /** Answers 503 from now on; resolves when every event that was being stored has its answer. */
  drain(): Promise<void>;
}

/** A call to the endpoint, whoever has taken it from the network. */
interface Call {
  readonly source: string;
  readonly method: string | undefined;
  readonly target: string;
  readonly headers: NodeJS.Dict<string[]>;
  readonly readBody: (bytesMax: number) => Promise<BodyReading>;
}

/** The source in a webhook address; empty if it is another address. */
export function findSource(url: string): string {
  return WEBHOOK_PATH.exec(url)?.[1] ?? "";
}

function takeRequest(req: IncomingMessage, budget: BodyBudget): Call {
  const { url = "", method } = req;
  const readBody = (bytesMax: number) => receiveBody(req, bytesMax, budget);
  return { source: findSource(url), method, target: url, headers: listHeaders(req), readBody };
}

function takeCall({ source, headers, body }: ReceivedCall): Call {
  const entries = headers instanceof Headers ? [...headers] : Object.entries(headers ?? {});
  const rawHeaders = entries.flatMap(([name, value]) =>
    [value ?? []].flat().flatMap((each: string) => [name, each]),
  );
  // Programs without our types also pass what a parser has made of the body.
  const isRead = typeof body === "string" || body instanceof Uint8Array;
  return {
    source,
    method: "POST",
    target: `/webhooks/${source}`,
    headers: listHeaders({ rawHeaders }),
    readBody: (bytesMax) =>
      Promise.resolve(isRead ? takeBytes(Buffer.from(body), bytesMax) : "body_already_read"),
  };
}

export function makeReceiver(deps: ReceiverDeps): Receiver {
  const { sources, onEnd, onRefused, clock, logger, limits = {} } = deps;
  const { bodyBytes: limitBytes = BODY_LIMIT_BYTES, bodiesBytes = BODIES_LIMIT_BYTES } = limits;
  const budget = makeBodyBudget(bodiesBytes);
  const logRefusal = makeRefusalLog({ clock, logger });
  /** Events that are being stored, until their answers; nothing begins after draining has begun. */
  const storing = new Set<Promise<void>>();
  let draining = false;

  async function handle(call: Call, answer: (outcome: ReceiveOutcome) => void): Promise<void> {
    const { source } = call;
    let arrivedMs = clock.monotonicMs();
    const finish = (ending: Ending) => {
      const durationMs = clock.monotonicMs() - arrivedMs;
      onEnd?.({ sourceId: sources.has(source) ? source : null, ...ending, durationMs });
      answer(ending.outcome);
      logRefusal({ ...ending, source });
    };
    try {
      await handleCall(call, finish, () => (arrivedMs = clock.monotonicMs()));
    } catch (error) {
      finish({ outcome: "failed", error });
    }
  }

  async function handleCall(call: Call, finish: (ending: Ending) => void, onArrived: () => void) {
    const { source: sourceId, headers } = call;
    const verifier = sources.get(sourceId)?.verifier;
    if (!verifier) return finish({ outcome: "not_found" });
    const refusal = draining ? "draining" : refuseByHead(call);
    if (refusal) return finish({ outcome: refusal });
    const bytesMax = Math.min(limitBytes, verifier.bodyBytesMax);
    const body = await call.readBody(bytesMax);
    onArrived();
    if (typeof body === "string") return finish({ outcome: body });
    try {
      const admission = admitEvent({ sourceId, headers, verifier, clock, body: body.bytes });
      if ("outcome" in admission) {
        const { outcome, refused } = admission;
        if (headers["user-agent"]?.[0] === EXAMINER) return finish({ outcome });
        if (refused) onRefused?.({ sourceId, ...refused, target: call.target, body: body.bytes });
        return finish({ outcome, reason: refused?.reason });
      }
      if (draining) return finish({ outcome: "draining" });
      const stored = storeEvent(deps, admission.event).then(finish);
      storing.add(stored);
      await stored.finally(() => storing.delete(stored));
    } finally {
      body.release();
    }
  }

  const serve = (req: IncomingMessage, res: ServerResponse) =>
    void handle(takeRequest(req, budget), (outcome) => sendAnswer(res, outcome));
  const receive = (received: ReceivedCall) =>
    new Promise<ReceiverAnswer>(
      (resolve) => void handle(takeCall(received), (outcome) => resolve(writeAnswer(outcome))),
    );
  const drain = async () => {
    draining = true;
    await Promise.allSettled(storing);
  };
  return Object.assign(serve, { receive, drain });
}

/** Refuses what can be refused before the body is read: method, encoding and type. */
function refuseByHead({ method, headers }: Call): ReceiveOutcome | undefined {
  if (method !== "POST") return "method_not_allowed";
  // A header without a value says nothing, and a proxy may have joined two equal ones.
  const encoding = headers["content-encoding"]?.[0]?.trim().toLowerCase();
  if (encoding !== undefined && encoding !== "" && encoding !== "identity") return "unsupported_encoding";
  const types = (headers["content-type"]?.[0] ?? "").split(",");
  return types.every((type) => JSON_TYPE.test(type)) ? undefined : "unsupported_type";
}

async function storeEvent({ store, notify }: ReceiverDeps, event: IncomingEvent): Promise<Ending> {
  try {
    const { seq } = await store(event);
    if (seq === null) return { outcome: "duplicate" };
    notify([seq]);
    return { outcome: "received" };
  } catch (error) {
    const hopeless = error instanceof OrderMirrorError && error.retry === "never";
    return { outcome: hopeless ? "failed" : "unavailable", error };
  }
}
