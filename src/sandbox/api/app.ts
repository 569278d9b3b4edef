/**
 * The provider's interface under /v1, on Express: it answers as the spec says, in the order key, budget, path, body,
 * endpoint, and counts what it answered.
 *
 * `ENDPOINTS` names what each endpoint of the contract does; `answers.ts` has the functions. Faults are planned for
 * each request before anything else, from its number. Start at `serve`.
 */
import { Refusal, refused } from "./refusal.ts";
import { randomBytes } from "node:crypto";
import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import express, { type Express, type Request, type Response } from "express";
import { millisFromInstant } from "../../domain/order/instant.ts";
import type { Clock } from "../../process/clock.ts";
import { tryDecode } from "../../domain/parseJson.ts";
import { chance } from "../world/chance.ts";
import { modeOf, type Caller } from "../world/directory.ts";
import { MARK, shownTime, type SandboxState } from "../world/state.ts";
import {
  advanceOrder,
  cancelOrder,
  createOrder,
  getOrder,
  listBranches,
  listOrders,
  quoteOrder,
  updateOrder,
  validateAddress,
  type Answerer,
} from "./answers.ts";
import { untouchedHeaders, type Policy, type RateLimiter } from "./rateLimits.ts";

export interface ApiDeps {
  readonly state: SandboxState;
  readonly limiter: RateLimiter;
  readonly journal: Journal;
  /** The machine's clock: latency is real even if the provider's clock is virtual. */
  readonly systemClock: Clock;
  readonly signal: AbortSignal;
}

interface Endpoint {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly answer: Answerer;
  readonly policies: readonly Policy[];
  /** Creates orders or previews them: needs a paid subscription, and warns while that is past due. */
  readonly sells: boolean;
  /** Other endpoints ignore the body. */
  readonly readsBody: boolean;
}

const PLAIN = { policies: ["sustained"], sells: false, readsBody: false } as const;
const endpoint = (
  name: string,
  method: string,
  path: string,
  answer: Answerer,
  rules: Partial<Endpoint> = {},
): Endpoint => ({ name, method, path, answer, ...PLAIN, ...rules });
const GEOCODES = { policies: ["sustained", "geocoding"], readsBody: true } as const;
/** The endpoints of the spec. Assumed: PATCH, because the spec does not show how to change an order. */
const ENDPOINTS: readonly Endpoint[] = [
  endpoint("createOrder", "POST", "/v1/orders", createOrder, { ...GEOCODES, sells: true }),
  endpoint("quoteOrder", "POST", "/v1/orders/quote", quoteOrder, { ...GEOCODES, sells: true }),
  endpoint("listOrders", "GET", "/v1/orders", listOrders, { policies: ["sustained", "order-list"] }),
  endpoint("getOrder", "GET", "/v1/orders/:reference", getOrder),
  endpoint("updateOrder", "PATCH", "/v1/orders/:reference", updateOrder, { readsBody: true }),
  endpoint("cancelOrder", "POST", "/v1/orders/:reference/cancel", cancelOrder),
  endpoint("advanceOrder", "POST", "/v1/test/orders/:reference/advance", advanceOrder),
  endpoint("validateAddress", "POST", "/v1/addresses/validate", validateAddress, GEOCODES),
  endpoint("listBranches", "GET", "/v1/branches", listBranches),
];

const ADDRESSES = ENDPOINTS.map((endpoint) => {
  return { endpoint, pattern: new RegExp(`^${endpoint.path.replace(":reference", "([^/]+)")}$`) };
});

interface ApiAnswer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
}

/** Answers every address that the control interface has not taken. Assumed: /v1 is the only version. */
export function addApi(app: Express, deps: ApiDeps): void {
  app.use((request: Request, response: Response) => serve(deps, request, response));
  app.use((error: Error, request: Request, _response: Response, _next: unknown) => {
    // Aborted: the shutdown cut the injected latency short, or the client is gone.
    if (!deps.signal.aborted) deps.state.logger.error({ err: error }, "a request could not be answered");
    request.socket.destroy();
  });
}

/**
 * Finds the endpoint that a request asks for, its parameters, and the methods of its address. The path is taken as
 * sent: `..` is a segment like any other. HEAD is answered like GET, without the body.
 */
function readTarget({ method, originalUrl }: Request) {
  const [path = ""] = originalUrl.split("?", 1);
  const here = ADDRESSES.flatMap(({ endpoint, pattern }) => {
    const found = pattern.exec(path);
    const reference = found === null ? undefined : tryDecode(found[1] ?? "");
    return reference === undefined ? [] : [{ endpoint, reference }];
  });
  const hit = here.find(({ endpoint }) => endpoint.method === (method === "HEAD" ? "GET" : method));
  return {
    endpoint: hit?.endpoint,
    /** The decoded `{reference}` of the path; empty if the path has none. */
    reference: hit?.reference ?? "",
    /** Empty when there is nothing at the address. */
    methods: [...new Set(here.map(({ endpoint }) => endpoint.method))],
    query: new URLSearchParams(originalUrl.slice(path.length)),
  };
}

async function serve(deps: ApiDeps, request: Request, response: Response): Promise<void> {
  const asked = readTarget(request);
  const { state, journal, systemClock, signal } = deps;
  const plan = planRequestFaults(state, journal.next(), asked);
  if (plan.latencyMs > 0) await systemClock.sleep(plan.latencyMs, signal);
  // Assumed: keys have no expiry and no scopes; a revoked key is unknown.
  const [, key = ""] = /^bearer +(\S+)$/i.exec(request.headers.authorization ?? "") ?? [];
  const caller = state.directory.findCaller(key);
  const answer = plan.dropBefore
    ? undefined
    : await answerOrFail(deps, { request, asked, caller, forced: plan.forced });
  const dropped = plan.dropBefore || plan.dropAfter;
  if (answer && !dropped) {
    const whole = writeBody(state, answer);
    const text = plan.truncate ? whole.slice(0, Math.floor(whole.length / 2)) : whole;
    response.writeHead(answer.status, { ...makeHeaders(state, text), ...answer.headers });
    response.end(text);
  } else request.socket.destroy();
  const status = dropped ? 0 : (answer?.status ?? 0);
  journal.record(`${asked.endpoint?.name ?? "unknown"} ${status}`);
}

interface Asking {
  readonly request: Request;
  readonly asked: ReturnType<typeof readTarget>;
  readonly caller: Caller | undefined;
  /** Answers instead of the endpoint, once key and budget are checked. */
  readonly forced: ApiAnswer | undefined;
}

/** Never throws for a client's mistakes. */
async function answerOrFail(deps: ApiDeps, asking: Asking): Promise<ApiAnswer> {
  const { state, limiter } = deps;
  const { asked, caller } = asking;
  const { policies, sells } = asked.endpoint ?? PLAIN;
  // The server leaves it to us: its own refusal has neither the rates nor a body.
  if (asking.request.headers.host === undefined && asking.request.httpVersion === "1.1") {
    return refuse(
      refused(400, "bad_request", "The header Host is missing."),
      untouchedHeaders(["sustained"]),
    );
  }
  if (!caller) {
    const bearer = { "WWW-Authenticate": "Bearer" };
    const refusal = refused(401, "invalid_api_key", "The API key is missing or unknown.", bearer);
    return refuse(refusal, untouchedHeaders(policies));
  }
  const { organization, livemode } = caller;
  // The budget belongs to the organization, all keys together, with separate counters per mode (spec, "Limits").
  const allowance = limiter.take(`${organization.organizationId} ${modeOf(livemode)}`, policies);
  // Only on creation and quote, and only while past_due (spec, "Limits").
  const warns = sells && organization.subscription === "past_due";
  const headers = { ...allowance.headers, ...(warns && { "Service-Subscription-State": "past_due" }) };
  try {
    if (allowance.refusal) {
      const { policy, retryAfterSeconds: wait } = allowance.refusal;
      const message = `Rate limit of the policy "${policy}" exceeded; retry after ${wait} s.`;
      throw refused(429, "rate_limit_exceeded", message, { "Retry-After": String(wait) });
    }
    const answer = await answerAllowed(state, asking, caller);
    return { ...answer, headers: { ...headers, ...answer.headers } };
  } catch (error) {
    if (error instanceof Refusal) return refuse(error, headers);
    // A client that disconnected is not our failure; nobody reads this answer.
    if (!asking.request.socket.destroyed) state.logger.error({ err: error }, "the sandbox failed");
    const failure = refused(500, "internal_error", "The sandbox failed; see its log.");
    return refuse(failure, untouchedHeaders(["sustained"]));
  }
}

async function answerAllowed(
  state: SandboxState,
  { request, asked, forced }: Asking,
  caller: Caller,
): Promise<ApiAnswer> {
  if (forced) return forced;
  const { endpoint, reference, methods, query } = asked;
  // Assumed: the codes, and 405.
  if (endpoint === undefined)
    throw methods.length === 0
      ? refused(404, "not_found", "There is nothing at this address.")
      : refused(405, "method_not_allowed", "The address has no such method.", { Allow: methods.join(", ") });
  const { name, answer, sells, readsBody } = endpoint;
  const { plan, subscription } = caller.organization;
  // The subscription is checked before the plan (spec, "Errors": 402, not 403); only endpoints that create orders need
  // it.
  if (sells && subscription !== "active" && subscription !== "past_due")
    throw refused(402, "subscription_inactive", `The subscription is ${subscription}.`);
  // Assumed: an organization without either plan may call nothing.
  if (plan === "none") throw refused(403, "feature_not_available", "The organization's plan has no API.");
  const body = readsBody ? await readBody(request) : undefined;
  const answered = await answer(state, { caller, reference, query, body });
  return { status: name === "createOrder" ? 201 : 200, body: answered, headers: {} };
}

/** Assumed: the spec shows no size limit for bodies. No Content-Type is needed. */
const BODY_BYTES_MAX = 65_536;
const parseBody = express.json({ limit: BODY_BYTES_MAX, strict: false, type: () => true });

/** The JSON body. Throws payload_too_large and invalid_json. */
async function readBody(request: Request): Promise<unknown> {
  await new Promise<void>((resolve, reject) => {
    parseBody(request, {} as Response, (error?: Error & { status?: number }) => {
      if (error === undefined) resolve();
      else if (error.status === 413) {
        const message = `The body exceeds ${BODY_BYTES_MAX} bytes.`;
        reject(refused(413, "payload_too_large", message, { Connection: "close" }));
      } else
        reject(error.status === undefined ? error : refused(400, "invalid_json", "The body is not JSON."));
    });
  });
  return request.body;
}

/** The body of a refusal. Assumed: the spec does not show its shape. */
function refuse(error: Refusal, headers: Readonly<Record<string, string>>): ApiAnswer {
  const { status, code, message } = error;
  return { status, body: { error: { code, message } }, headers: { ...headers, ...error.headers } };
}

function writeBody({ decisions }: SandboxState, { body }: ApiAnswer): string {
  const { error } = body as { error?: { code: string; message: string } };
  const shapes = {
    nested: () => body,
    flat: () => ({ ...error }),
    text: () => ({ error: error?.code, message: error?.message }),
  };
  const shaped = error === undefined ? body : shapes[decisions.errorShape]();
  return JSON.stringify({ ...shaped, request_id: `req_${randomBytes(12).toString("hex")}` });
}

function makeHeaders(state: SandboxState, text: string) {
  const now = shownTime(state.clock.now(), state.faults.current());
  return {
    ...MARK,
    // By the provider's clock.
    Date: new Date(millisFromInstant(now)).toUTCString(),
    "Content-Type": "application/json; charset=utf-8",
    "Content-Length": Buffer.byteLength(text),
    "Cache-Control": "no-store",
  };
}

/** Plans a request's faults by its number, so that the same requests meet the same faults in every run. */
function planRequestFaults(
  { dials: { seed }, faults: switches }: SandboxState,
  number: number,
  asked: Asking["asked"],
) {
  const faults = switches.current();
  const isMeant = faults.onlyEndpoint === "all" || faults.onlyEndpoint === asked.endpoint?.name;
  const isBroken =
    asked.endpoint?.name === "getOrder" && chance(seed, "broken", asked.reference) < faults.brokenOrderShare;
  const isHit = (fault: string, share: number) => isMeant && chance(seed, fault, number) < share;
  const failure: ApiAnswer = {
    status: faults.failStatus,
    body: { error: { code: "internal_error", message: "A fault of the sandbox." } },
    headers: {},
  };
  return {
    latencyMs: isMeant ? faults.latencyMs : 0,
    dropBefore: isHit("dropBefore", faults.dropBeforeShare),
    dropAfter: isHit("dropAfter", faults.dropAfterShare),
    truncate: isHit("truncate", faults.truncateShare),
    forced: isBroken || isHit("fail", faults.failShare) ? failure : undefined,
  };
}

/** Statuses of what Node's parser refuses before there is a request. Assumed: the codes. */
const MALFORMED: Readonly<Record<string, readonly [status: number, code: string, message: string]>> = {
  HPE_HEADER_OVERFLOW: [431, "headers_too_large", "The headers are too large."],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "request_timeout", "The request did not arrive in time."],
};

/** Answers what is no HTTP as everything else is answered: with the rates, and in JSON (spec, "Limits"). */
export function refuseMalformed(state: SandboxState, error: NodeJS.ErrnoException, socket: Duplex): void {
  if (!socket.writable || error.code === "ECONNRESET") return void socket.destroy();
  const [status, code, message] = MALFORMED[error.code ?? ""] ?? [
    400,
    "bad_request",
    "The request is not HTTP.",
  ];
  const answer = refuse(refused(status, code, message), untouchedHeaders(["sustained"]));
  const text = writeBody(state, answer);
  const headers = { ...makeHeaders(state, text), ...answer.headers, Connection: "close" };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${lines.join("")}\r\n${text}`);
}

export type Journal = ReturnType<typeof makeJournal>;

/** Counts the requests, for tests and people. */
export function makeJournal() {
  let number = 0;
  const counts: Record<string, number> = {};
  return {
    /** The number of the next request. */
    next: () => (number += 1),
    record: (name: string) => {
      counts[name] = (counts[name] ?? 0) + 1;
    },
    /** Per endpoint and status since the start: `listOrders 200`; 0: the connection was closed on purpose. */
    counts: () => ({ ...counts }),
  };
}
