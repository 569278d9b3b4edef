import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import { OrderMirrorError } from "../domain/errors.ts";
import type { EventReader } from "../domain/source/orderSource.ts";
import type { IncomingEvent } from "./inbox.sql.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { makeLogSampler } from "../runtime/telemetry/logSampler.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import type { SignatureRefusal } from "../signature/verifier.ts";
import type { Verifier } from "../signature/verifier.ts";
import { admitEvent, listHeaders, makeBodyBudget, receiveBody, refuseByHead } from "./admit.ts";
import type { RefusedRequest } from "./refusedRequests.ts";
import type { StoreReceipt } from "./groupCommit.ts";

/*
 * The webhook endpoint. It promises: 200 only for an event that is committed to the inbox, and nothing unauthenticated in the
 * database. Everything authenticated is stored, even if it is not JSON or of an unknown type: that is not the sender's
 * concern. 4xx is only for what can never be accepted; our own faults are 5xx, which senders retry. `makeReceiver` reads and
 * verifies (`admit.ts`), commits (`groupCommit.ts`, `inbox.sql.ts`), answers, and then notifies the workers.
 */

/** Events are a few kilobytes; Standard Webhooks advises senders to stay below 20. */
const BODY_LIMIT_BYTES = 1_048_576;
/** For all requests together, excluding the first kilobytes of each (see BodyBudget). */
const BODIES_LIMIT_BYTES = 64 * 1_048_576;
const WEBHOOK_PATH = /^\/webhooks\/([^/?#]+)\/?(?:\?|$)/;

/** How a call to the webhook endpoint ended. */
export interface CallEnd {
  /** Null if no source has the address. */
  readonly sourceId: string | null;
  readonly outcome: ReceiveOutcome;
  /** What was wrong with the signature, if that was the reason. */
  readonly reason?: SignatureRefusal | undefined;
  /** From the arrival of the whole request to the decision: a slow sender is not our slowness. */
  readonly durationMs: number;
}

export interface ReceiverDeps {
  /** By source id, as in the address `/webhooks/:source`. A source that is not listed has no address. */
  readonly sources: ReadonlyMap<string, { readonly verifier: Verifier | null }>;
  /** How each source announces changes. */
  readonly events: Pick<EventReader, "readEventId">;
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

export interface Receiver {
  /** Answers `POST /webhooks/:source`, whose body nobody has read before, and any other address with 404. */
  (req: IncomingMessage, res: ServerResponse): void;
  /** Answers 503 from now on; resolves when every event that was being stored has its answer. */
  drain(): Promise<void>;
}

interface Ending {
  readonly outcome: ReceiveOutcome;
  readonly reason?: SignatureRefusal;
  readonly error?: unknown;
}

export function makeReceiver(deps: ReceiverDeps): Receiver {
  const { sources, onEnd, onRefused, clock, logger, limits = {} } = deps;
  const { bodyBytes: limitBytes = BODY_LIMIT_BYTES, bodiesBytes = BODIES_LIMIT_BYTES } = limits;
  const budget = makeBodyBudget(bodiesBytes);
  const logRefusal = makeRefusalLog({ clock, logger });
  /** Events that are being stored, until their answers; nothing begins after draining has begun. */
  const storing = new Set<Promise<void>>();
  let draining = false;

  async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const source = WEBHOOK_PATH.exec(req.url ?? "")?.[1] ?? "";
    let arrivedMs = clock.monotonicMs();
    const finish = (ending: Ending) => {
      const durationMs = clock.monotonicMs() - arrivedMs;
      onEnd?.({ sourceId: sources.has(source) ? source : null, ...ending, durationMs });
      sendAnswer(res, ending.outcome);
      logRefusal({ ...ending, source });
    };
    try {
      await handleRequest(req, source, { finish, onArrived: () => (arrivedMs = clock.monotonicMs()) });
    } catch (error) {
      finish({ outcome: "failed", error });
    }
  }

  async function handleRequest(
    req: IncomingMessage,
    sourceId: string,
    { finish, onArrived }: { finish: (ending: Ending) => void; onArrived: () => void },
  ) {
    const verifier = sources.get(sourceId)?.verifier;
    if (!verifier) return finish({ outcome: "not_found" });
    const refusal = draining ? "draining" : refuseByHead(req);
    if (refusal) return finish({ outcome: refusal });
    const bytesMax = Math.min(limitBytes, verifier.bodyBytesMax);
    const body = await receiveBody(req, { limitBytes: bytesMax, budget });
    onArrived();
    if (typeof body === "string") return finish({ outcome: body });
    try {
      const admission = admitEvent(req, { sourceId, verifier, clock, body: body.bytes, ...deps.events });
      if ("outcome" in admission) {
        if (admission.reason)
          onRefused?.({ sourceId, headers: listHeaders(req), target: req.url ?? "", body: body.bytes });
        return finish(admission);
      }
      if (draining) return finish({ outcome: "draining" });
      const stored = storeEvent(deps, admission.event).then(finish);
      storing.add(stored);
      await stored.finally(() => storing.delete(stored));
    } finally {
      body.release();
    }
  }

  return Object.assign((req: IncomingMessage, res: ServerResponse) => void serve(req, res), {
    async drain() {
      draining = true;
      await Promise.allSettled(storing);
    },
  });
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

const RETRY_AFTER_SECONDS = 5;
const LOG_INTERVAL_MS = 10_000;

interface Answer {
  readonly status: number;
  readonly headers: OutgoingHttpHeaders;
  /** A string, so that Node sends head and body in one system call; a Buffer would need two. */
  readonly body: string;
}

function answerWith(status: number, error: string, headers: OutgoingHttpHeaders = {}): Answer {
  const body = JSON.stringify({ error });
  const length = Buffer.byteLength(body);
  return {
    status,
    body,
    headers: { "Content-Type": "application/json", "Content-Length": length, ...headers },
  };
}

/** Without a body, which no sender reads: a head alone saves a bare handler a tenth of its time. */
const RECEIVED: Answer = { status: 200, headers: { "Content-Length": 0 }, body: "" };
const RETRY_LATER = { "Retry-After": String(RETRY_AFTER_SECONDS) };

/**
 * Every answer of the endpoint, by outcome. All are constant: an answer never reveals more than its status about the
 * failed check. A duplicate is answered like the first one; otherwise its sender would keep trying.
 */
const ANSWERS = {
  received: RECEIVED,
  duplicate: RECEIVED,
  empty_body: answerWith(400, "empty_body"),
  ambiguous_headers: answerWith(400, "ambiguous_headers"),
  unauthorized: answerWith(401, "unauthorized"),
  not_found: answerWith(404, "not_found"),
  method_not_allowed: answerWith(405, "method_not_allowed", { Allow: "POST" }),
  too_large: answerWith(413, "body_too_large"),
  unsupported_type: answerWith(415, "unsupported_media_type"),
  unsupported_encoding: answerWith(415, "unsupported_content_encoding", { "Accept-Encoding": "identity" }),
  body_already_read: answerWith(500, "internal_error"),
  failed: answerWith(500, "internal_error"),
  overloaded: answerWith(503, "unavailable", RETRY_LATER),
  unavailable: answerWith(503, "unavailable", RETRY_LATER),
  draining: answerWith(503, "unavailable", { ...RETRY_LATER, Connection: "close" }),
} as const satisfies Record<string, Answer>;

/** How a request to the webhook endpoint ended; `aborted`: the sender disconnected before the answer. */
export type ReceiveOutcome = keyof typeof ANSWERS | "aborted";

/** Sends the answer of an outcome, unless the sender is gone or something else has already answered. */
function sendAnswer(res: ServerResponse, outcome: ReceiveOutcome): void {
  if (outcome === "aborted" || res.headersSent || res.destroyed) return;
  const { status, headers, body } = ANSWERS[outcome];
  res.writeHead(status, headers).end(body);
}

/** Logs refused requests, at most one per outcome and source in 10 s: a flood must cost us nothing. */
function makeRefusalLog({ clock, logger }: { clock: Clock; logger: Logger }) {
  const sample = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });

  return ({ outcome, source, reason, error }: Ending & { source: string }): void => {
    if (outcome === "received" || outcome === "duplicate" || outcome === "aborted") return;
    // An unknown source must not be a key: a scanner could invent any number.
    const knownSource = outcome === "not_found" ? undefined : source;
    const suppressed = sample(`${outcome} ${knownSource ?? ""}`);
    if (suppressed === undefined) return;
    const fields = {
      outcome,
      suppressed,
      ...(knownSource === undefined ? {} : { source: knownSource }),
      ...(reason === undefined ? {} : { reason }),
      ...(error === undefined ? {} : { err: error }),
    };
    if (ANSWERS[outcome].status >= 500 && outcome !== "draining")
      logger.error(fields, "a webhook request could not be answered normally");
    else logger.warn(fields, "a webhook request was refused");
  };
}
