import { hash } from "node:crypto";
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import { OrderMirrorError } from "../domain/errors.ts";
import { millisFromInstant } from "../domain/order/instant.ts";
import { readEventId } from "../wire/events.ts";
import type { Clock } from "../process/clock.ts";
import { BODY_ALREADY_READ, takeReadBody } from "../process/readBody.ts";
import { makeLogSampler } from "../process/telemetry/logSampler.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import type { SignatureRefusal, Verifier } from "../signature/verifier.ts";
import type { StoreReceipt } from "./groupCommit.ts";
import type { IncomingEvent } from "./inbox.sql.ts";
import type { RefusedRequest } from "./refusedRequests.ts";

/*
 * The webhook endpoint. It promises: 200 only for an event that is committed to the inbox, and nothing unauthenticated
 * in the database. Everything authenticated is stored, even if it is not JSON or of an unknown type: that is not the
 * sender's concern. 4xx is only for what can never be accepted; our own faults are 5xx, which senders retry.
 * `makeReceiver` reads and verifies, commits (`groupCommit.ts`, `inbox.sql.ts`), answers, and then notifies the
 * workers.
 */

/** Events are a few kilobytes; Standard Webhooks advises senders to stay below 20. */
const BODY_LIMIT_BYTES = 1_048_576;
/** For all requests together, excluding the first kilobytes of each (see BodyBudget). */
const BODIES_LIMIT_BYTES = 64 * 1_048_576;
const WEBHOOK_PATH = /^\/webhooks\/([^/?#]+)\/?(?:\?|$)/;

const JSON_TYPE = /^\s*(?:application\/json|[\w.!#$&^+-]+\/[\w.!#$&^+-]+\+json)\s*(?:;|$)/i;
/**
 * This much of each body is free: events are a few kilobytes, and Standard Webhooks advises senders to stay below 20.
 * So a small event is never refused because of others; the limit on connections bounds the total.
 */
const FREE_BYTES = 16_384;
const EVENT_ID_LENGTH_MAX = 255;

/** The user agent of `doctor`, whose unsigned calls are no evidence that the provider signs in another way. */
export const EXAMINER = "order-mirror-doctor";

/** The end of a call to the webhook endpoint. */
export interface CallEnd {
  /** Null if no source has the address. */
  readonly sourceId: string | null;
  readonly outcome: ReceiveOutcome;
  /** The fault of the signature, if that was the reason. */
  readonly reason?: SignatureRefusal | undefined;
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
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>> | Headers;
  /** The body as it came: signatures cover the bytes. A text is taken as UTF-8. */
  readonly body: Uint8Array | string;
}

/** The answer to a call. */
export interface ReceiverAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
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
  const entries = headers instanceof Headers ? [...headers] : Object.entries(headers);
  const rawHeaders = entries.flatMap(([name, value]) =>
    [value ?? []].flat().flatMap((each: string) => [name, each]),
  );
  const bytes = Buffer.from(body);
  return {
    source,
    method: "POST",
    target: `/webhooks/${source}`,
    headers: listHeaders({ rawHeaders }),
    readBody: (bytesMax) => Promise.resolve(takeBytes(bytes, bytesMax)),
  };
}

interface Ending {
  readonly outcome: ReceiveOutcome;
  readonly reason?: SignatureRefusal | undefined;
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

// From a request to an authenticated event: the head, the raw bytes, the signature, the key under which it is stored.

/** Refuses what can be refused before the body is read: method, encoding and type. */
function refuseByHead({ method, headers }: Call): ReceiveOutcome | undefined {
  if (method !== "POST") return "method_not_allowed";
  // A header without a value says nothing, and a proxy may have joined two equal ones.
  const encoding = headers["content-encoding"]?.[0]?.trim().toLowerCase();
  if (encoding !== undefined && encoding !== "" && encoding !== "identity") return "unsupported_encoding";
  const types = (headers["content-type"]?.[0] ?? "").split(",");
  return types.every((type) => JSON_TYPE.test(type)) ? undefined : "unsupported_type";
}

type BodyBudget = ReturnType<typeof makeBodyBudget>;

/** Bytes that all bodies together may use, beyond the free part of each. */
function makeBodyBudget(maxBytes: number) {
  let usedBytes = 0;
  return {
    /** False, and nothing is taken, if there is no room. */
    take(bytes: number): boolean {
      if (usedBytes + bytes > maxBytes) return false;
      usedBytes += bytes;
      return true;
    },
    giveBack: (bytes: number) => void (usedBytes -= bytes),
  };
}

/** The part of a body that counts. */
const countedBytes = (bytes: number) => Math.max(0, bytes - FREE_BYTES);

/** A complete body, whose `release` returns its share of the budget; or the reason why there is none. */
type BodyReading =
  | { readonly bytes: Buffer; readonly release: () => void }
  | "too_large"
  | "overloaded"
  | "aborted"
  | "body_already_read";

/**
 * Reads the body as raw bytes, at most `limitBytes`.
 *
 * "body_already_read": a parser in front of us has read it, and its bytes are gone. "overloaded": the budget has no
 * room. Never rejects.
 */
function receiveBody(req: IncomingMessage, limitBytes: number, budget: BodyBudget): Promise<BodyReading> {
  const read = takeReadBody(req);
  if (read !== undefined)
    return Promise.resolve(read === "lost" ? "body_already_read" : takeBytes(read, limitBytes));
  if (Number(req.headers["content-length"] ?? 0) > limitBytes) return Promise.resolve("too_large");
  return new Promise((resolve) => {
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
  });
}

/** A body that is in memory already, where it counts against nothing of ours. */
function takeBytes(bytes: Buffer, limitBytes: number): BodyReading {
  return bytes.length > limitBytes ? "too_large" : { bytes, release: () => undefined };
}

/** An authenticated event, or why the request is refused. */
type Admission =
  | { readonly event: IncomingEvent }
  | { readonly outcome: ReceiveOutcome; readonly refused?: Pick<RefusedRequest, "reason" | "headers"> };

/** Verifies the bytes, and only then reads the event's id from them. */
function admitEvent(deps: {
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

type Answer = ReturnType<typeof answerWith>;

function answerWith(status: number, error: string, more: OutgoingHttpHeaders = {}, message?: string) {
  // A string, so that Node sends head and body in one system call; a Buffer would need two.
  const body = JSON.stringify({ error, message });
  const length = Buffer.byteLength(body);
  const headers: OutgoingHttpHeaders = {
    "Content-Type": "application/json",
    "Content-Length": length,
    ...more,
  };
  return { status, headers, body };
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
  body_already_read: answerWith(500, "body_already_read", {}, BODY_ALREADY_READ),
  failed: answerWith(500, "internal_error"),
  overloaded: answerWith(503, "unavailable", RETRY_LATER),
  unavailable: answerWith(503, "unavailable", RETRY_LATER),
  draining: answerWith(503, "unavailable", { ...RETRY_LATER, Connection: "close" }),
} as const satisfies Record<string, Answer>;

/** The outcome of a request to the webhook endpoint; `aborted`: the sender disconnected before the answer. */
type ReceiveOutcome = keyof typeof ANSWERS | "aborted";

/** Sends the answer of an outcome, unless the sender is gone or something else has already answered. */
function sendAnswer(res: ServerResponse, outcome: ReceiveOutcome): void {
  if (outcome === "aborted" || res.headersSent || res.destroyed) return;
  const { status, headers, body } = ANSWERS[outcome];
  res.writeHead(status, headers).end(body);
}

function writeAnswer(outcome: ReceiveOutcome): ReceiverAnswer {
  const { status, headers, body } = ANSWERS[outcome === "aborted" ? "failed" : outcome];
  const entries = Object.entries(headers).map(([name, value]) => [name, String(value)]);
  return { status, headers: Object.fromEntries(entries) as Record<string, string>, body };
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
    const fix = outcome === "body_already_read" ? BODY_ALREADY_READ : undefined;
    const fields = { outcome, suppressed, source: knownSource, reason, err: error, fix };
    if (ANSWERS[outcome].status >= 500 && outcome !== "draining")
      logger.error(fields, "a webhook request could not be answered normally");
    else logger.warn(fields, "a webhook request was refused");
  };
}
