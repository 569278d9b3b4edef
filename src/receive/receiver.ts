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

// The webhook endpoint. It promises: 200 only for an event that is committed to the inbox, nothing unauthenticated in the
// database, and nothing authenticated refused because of its content. `makeReceiver` reads and verifies (`admit.ts`),
// commits (`groupCommit.ts`, `inbox.sql.ts`), answers, and then notifies the workers.

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
  /**
   * Answers `POST /webhooks/:source`, called by `http.createServer` or mounted in Express before any body parser. A
   * request for another path goes to `next`, or gets 404 without one.
   */
  (req: IncomingMessage, res: ServerResponse, next?: () => void): void;
  /** Answers 503 from now on; resolves when every event that was being stored has its answer. */
  drain(): Promise<void>;
}

interface Ending {
  readonly outcome: ReceiveOutcome;
  readonly reason?: SignatureRefusal;
  readonly error?: unknown;
}

/**
 * The webhook endpoint: reads the bytes, verifies them, commits them to the inbox, answers 200, and notifies the
 * workers.
 *
 * Nothing is parsed before it is verified, and nothing unauthenticated reaches the database. Everything authenticated
 * is stored, even if it is not JSON or of an unknown type: that is not the sender's concern. 4xx is only for what can
 * never be accepted; our own faults are 5xx, which senders retry.
 */
export function makeReceiver(deps: ReceiverDeps): Receiver {
  const { sources, onEnd, onRefused, clock, logger, limits = {} } = deps;
  const { bodyBytes: limitBytes = BODY_LIMIT_BYTES, bodiesBytes = BODIES_LIMIT_BYTES } = limits;
  const budget = makeBodyBudget(bodiesBytes);
  const storing = makeDrain();
  const logRefusal = makeRefusalLog({ clock, logger });

  function receive(req: IncomingMessage, res: ServerResponse, next?: () => void): void {
    const source = WEBHOOK_PATH.exec(addressOf(req))?.[1];
    if (source === undefined && next) next();
    else void serve(req, res, source ?? "");
  }

  async function serve(req: IncomingMessage, res: ServerResponse, source: string): Promise<void> {
    let arrivedMs = clock.monotonicMs();
    const finish = (ending: Ending) => {
      const durationMs = clock.monotonicMs() - arrivedMs;
      onEnd?.({ sourceId: sources.has(source) ? source : null, ...ending, durationMs });
      sendAnswer(res, ending.outcome);
      logRefusal(req, { ...ending, source });
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
    const refusal = storing.isDraining() ? "draining" : refuseByHead(req);
    if (refusal) return finish({ outcome: refusal });
    const bytesMax = Math.min(limitBytes, verifier.bodyBytesMax);
    const body = await receiveBody(req, { limitBytes: bytesMax, budget });
    onArrived();
    if (typeof body === "string") return finish({ outcome: body });
    try {
      const admission = admitEvent(req, { sourceId, verifier, clock, body: body.bytes, ...deps.events });
      if ("outcome" in admission && admission.reason) onRefused?.(describeRefused(req, sourceId, body.bytes));
      if ("outcome" in admission) return finish(admission);
      if (!storing.begin()) return finish({ outcome: "draining" });
      try {
        finish(await storeEvent(deps, admission.event));
      } finally {
        storing.end();
      }
    } finally {
      body.release();
    }
  }

  return Object.assign(receive, { drain: () => storing.drain() });
}

/** Counts work that must finish before the process may end; nothing begins after draining has begun. */
function makeDrain() {
  let running = 0;
  let draining = false;
  const whenDone: (() => void)[] = [];
  return {
    isDraining: () => draining,
    begin(): boolean {
      if (!draining) running += 1;
      return !draining;
    },
    end(): void {
      running -= 1;
      if (running === 0) for (const done of whenDone.splice(0)) done();
    },
    /** Resolves when everything that began has ended. */
    drain(): Promise<void> {
      draining = true;
      return running === 0 ? Promise.resolve() : new Promise((resolve) => whenDone.push(resolve));
    },
  };
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

function describeRefused(req: IncomingMessage, sourceId: string, body: Buffer): RefusedRequest {
  return { sourceId, headers: listHeaders(req), target: addressOf(req), body };
}

/** Express removes its mount path from `url`. */
function addressOf(req: IncomingMessage): string {
  const { originalUrl } = req as { originalUrl?: unknown };
  return typeof originalUrl === "string" ? originalUrl : (req.url ?? "");
}

const RETRY_AFTER_SECONDS = 5;
const LOG_INTERVAL_MS = 10_000;
const NAMES_MAX = 10;
/** Headers in which a signature may be hidden from our scheme: a hint at a wrong configuration. */
const TELLING_NAME = /sig|hmac|digest|timestamp/i;

interface Answer {
  readonly status: number;
  readonly headers: OutgoingHttpHeaders;
  /** A string, so that Node sends head and body in one system call; a Buffer would need two. */
  readonly body: string;
}

function answerWith(status: number, content: object, headers: OutgoingHttpHeaders = {}): Answer {
  const body = JSON.stringify(content);
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
  empty_body: answerWith(400, { error: "empty_body" }),
  ambiguous_headers: answerWith(400, { error: "ambiguous_headers" }),
  unauthorized: answerWith(401, { error: "unauthorized" }),
  not_found: answerWith(404, { error: "not_found" }),
  method_not_allowed: answerWith(405, { error: "method_not_allowed" }, { Allow: "POST" }),
  too_large: answerWith(413, { error: "body_too_large" }),
  unsupported_type: answerWith(415, { error: "unsupported_media_type" }),
  unsupported_encoding: answerWith(
    415,
    { error: "unsupported_content_encoding" },
    { "Accept-Encoding": "identity" },
  ),
  body_already_read: answerWith(500, { error: "internal_error" }),
  failed: answerWith(500, { error: "internal_error" }),
  overloaded: answerWith(503, { error: "unavailable" }, RETRY_LATER),
  unavailable: answerWith(503, { error: "unavailable" }, RETRY_LATER),
  draining: answerWith(503, { error: "unavailable" }, { ...RETRY_LATER, Connection: "close" }),
} as const satisfies Record<string, Answer>;

/** How a request to the webhook endpoint ended; `aborted`: the sender disconnected before the answer. */
export type ReceiveOutcome = keyof typeof ANSWERS | "aborted";

/** Sends the answer of an outcome, unless the sender is gone or something else has already answered. */
function sendAnswer(res: ServerResponse, outcome: ReceiveOutcome): void {
  if (outcome === "aborted" || res.headersSent || res.destroyed) return;
  const { status, headers, body } = ANSWERS[outcome];
  res.writeHead(status, headers).end(body);
}

interface Refusal {
  readonly outcome: ReceiveOutcome;
  readonly source: string;
  readonly reason?: string;
  readonly error?: unknown;
}

/**
 * Logs refused requests, at most one per outcome and source in 10 s: a flood must cost us nothing. Only names of
 * headers appear, never values.
 */
function makeRefusalLog({ clock, logger }: { clock: Clock; logger: Logger }) {
  const sample = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });

  return (req: IncomingMessage, { outcome, source, reason, error }: Refusal): void => {
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
      ...(outcome === "unauthorized" ? { header_names: listTellingNames(req) } : {}),
      ...(error === undefined ? {} : { err: error }),
    };
    if (isOurFault(outcome)) logger.error(fields, "a webhook request could not be answered normally");
    else logger.warn(fields, "a webhook request was refused");
  };
}

function isOurFault(outcome: ReceiveOutcome): boolean {
  return (
    outcome === "body_already_read" ||
    outcome === "failed" ||
    outcome === "overloaded" ||
    outcome === "unavailable"
  );
}

function listTellingNames(req: IncomingMessage): string[] {
  return Object.keys(req.headers)
    .filter((name) => TELLING_NAME.test(name))
    .slice(0, NAMES_MAX);
}
