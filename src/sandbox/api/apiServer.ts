import { modeOf } from "../world/directory.ts";
import { randomBytes } from "node:crypto";
import { STATUS_CODES } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { millisFromInstant } from "../../domain/order/instant.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { answerApi, refuse } from "./answerApi.ts";
import type { ApiOutcome } from "./answerApi.ts";
import { matchEndpoint, readTarget } from "../../wire/endpoints.ts";
import type { ApiAnswer } from "./apiRequest.ts";
import type { Endpoint } from "./endpoints.ts";
import type { Journal } from "../control/journal.ts";
import { MARK } from "../world/mark.ts";
import { untouchedHeaders } from "./rateLimits.ts";
import type { RateLimiter } from "./rateLimits.ts";
import { shownTime } from "../world/sandboxState.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import { chance } from "../world/chance.ts";
import { hitsEndpoint } from "../control/faults.ts";
import type { Faults } from "../control/faults.ts";
import { refused } from "./errors.ts";

export interface ApiServerDeps {
  readonly state: SandboxState;
  readonly endpoints: readonly Endpoint[];
  readonly limiter: RateLimiter;
  readonly journal: Journal;
  /** The machine's clock: latency and durations are real even if the provider's clock is virtual. */
  readonly systemClock: Clock;
  readonly signal: AbortSignal;
}

type AnswerHttp = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** Makes the handler of everything under /v1. */
export function makeApiServer(deps: ApiServerDeps): AnswerHttp {
  const { state, endpoints, journal, systemClock, signal } = deps;
  return async (request, response) => {
    const target = request.url ?? "/";
    const { path, query } = readTarget(target);
    const requestNumber = journal.next();
    const startedMs = systemClock.monotonicMs();
    const requestId = makeRequestId();
    const match = matchEndpoint(endpoints, request.method ?? "GET", path);
    const endpoint = match.endpoint?.name ?? "unknown";
    const plan = planRequestFaults({
      faults: state.faults.current(),
      seed: state.dials.seed,
      requestNumber,
      endpoint,
      reference: match.reference,
    });
    if (plan.latencyMs > 0) await systemClock.sleep(plan.latencyMs, signal);
    const outcome = plan.dropBefore
      ? undefined
      : await answerOrFail(deps, { match, request, query, forced: plan.forced });
    const dropped = plan.dropBefore || plan.dropAfter;
    if (outcome && !dropped) {
      const whole = writeBody(state, outcome.answer, requestId);
      const text = plan.truncate ? whole.slice(0, Math.floor(whole.length / 2)) : whole;
      response.writeHead(outcome.answer.status, { ...makeHeaders(state, text), ...outcome.answer.headers });
      response.end(request.method === "HEAD" ? undefined : text);
      // Unread body bytes would otherwise block the connection's next request.
      request.resume();
    } else request.socket.destroy();
    const { answer, caller } = outcome ?? {};
    journal.record({
      requestNumber,
      at: state.clock.now(),
      organizationId: caller?.organization.organizationId ?? null,
      mode: caller ? modeOf(caller.livemode) : null,
      method: request.method ?? "",
      path,
      query: target.slice(path.length),
      endpoint,
      status: dropped ? 0 : (answer?.status ?? 0),
      code: answer ? codeOf(answer) : null,
      requestId,
      durationMs: Math.round(systemClock.monotonicMs() - startedMs),
      faults: namesOf(plan),
    });
  };
}

const UNREADABLE = {
  400: "The request cannot be read.",
  408: "The request did not arrive in time.",
  431: "The request's headers are too large.",
} as const;

/** Answers what Node could not read, with the headers and the request_id of every response (spec, "Limits"). */
export function makeUnreadableAnswer(state: SandboxState): (code: string | undefined) => string {
  return (code) => {
    const status = code === "HPE_HEADER_OVERFLOW" ? 431 : code === "ERR_HTTP_REQUEST_TIMEOUT" ? 408 : 400;
    const answer = refuse(refused(status, "invalid_request", UNREADABLE[status]));
    const text = writeBody(state, answer, makeRequestId());
    const headers = { ...makeHeaders(state, text), ...untouchedHeaders(["sustained"]), Connection: "close" };
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("")}\r\n${text}`;
  };
}

function writeBody({ decisions }: SandboxState, { body }: ApiAnswer, requestId: string): string {
  const { error } = body as { error?: { code: string; message: string } };
  const shapes = {
    nested: () => body,
    flat: () => ({ ...error }),
    text: () => ({ error: error?.code, message: error?.message }),
  };
  const shaped = error === undefined ? body : shapes[decisions.errorShape]();
  return JSON.stringify({ ...shaped, request_id: requestId });
}

function makeRequestId(): string {
  return `req_${randomBytes(12).toString("hex")}`;
}

function makeHeaders(state: SandboxState, text: string) {
  return {
    ...MARK,
    Date: showDate(state),
    "Content-Type": "application/json; charset=utf-8",
    "Content-Length": Buffer.byteLength(text),
    "Cache-Control": "no-store",
  };
}

/** The provider's time for the header Date, which has whole seconds. */
function showDate(state: SandboxState): string {
  const now = shownTime(state.clock.now(), state.faults.current());
  return new Date(millisFromInstant(now)).toUTCString();
}

async function answerOrFail(
  { state, limiter }: ApiServerDeps,
  asked: Pick<Parameters<typeof answerApi>[0], "match" | "request" | "query" | "forced">,
): Promise<ApiOutcome> {
  try {
    return await answerApi({ state, limiter, ...asked });
  } catch (error) {
    // A client that disconnected is not our failure; nobody reads this answer.
    if (!asked.request.socket.destroyed)
      state.logger.error(
        { err: error, path: readTarget(asked.request.url ?? "/").path },
        "the sandbox failed",
      );
    const failure = refused(500, "internal_error", "The sandbox failed; see its log.");
    const answer = { ...refuse(failure), headers: untouchedHeaders(["sustained"]) };
    return { answer, caller: undefined };
  }
}

function codeOf({ body }: ApiAnswer): string | null {
  const { error } = body as { error?: { code?: string } };
  return error?.code ?? null;
}

function namesOf(plan: ReturnType<typeof planRequestFaults>): string[] {
  return Object.entries(plan)
    .filter(([, value]) => value !== false && value !== undefined && value !== 0)
    .map(([name]) => name);
}

/** Decides by the request's number, so that the same requests meet the same faults in every run. */
function planRequestFaults(options: {
  faults: Faults;
  seed: number;
  requestNumber: number;
  endpoint: string;
  reference: string;
}) {
  const { faults, seed, requestNumber, endpoint, reference } = options;
  const isBroken = endpoint === "getOrder" && chance(seed, "broken", reference) < faults.brokenOrderShare;
  const spared = !hitsEndpoint(faults, endpoint);
  const draw = (fault: string) => chance(seed, fault, requestNumber);
  const isHit = (fault: string, share: number) => !spared && draw(fault) < share;
  return {
    latencyMs: spared ? 0 : faults.latencyMs + Math.floor(draw("jitter") * faults.latencyJitterMs),
    dropBefore: isHit("dropBefore", faults.dropBeforeShare),
    dropAfter: isHit("dropAfter", faults.dropAfterShare),
    truncate: isHit("truncate", faults.truncateShare),
    /** Replaces the endpoint's answer, after the checks of key and budget. */
    forced: forceAnswer(faults, (fault, share) => (fault === "fail" && isBroken) || isHit(fault, share)),
  };
}

function forceAnswer(
  faults: Faults,
  isHit: (fault: string, share: number) => boolean,
): ApiAnswer | undefined {
  if (isHit("refuse", faults.refuseShare)) {
    const message = 'Rate limit of the policy "sustained" exceeded (a storm of the sandbox).';
    return {
      status: 429,
      body: { error: { code: "rate_limit_exceeded", message } },
      headers: { "Retry-After": String(faults.refuseRetryAfterSeconds) },
    };
  }
  if (!isHit("fail", faults.failShare)) return undefined;
  return {
    status: faults.failStatus,
    body: { error: { code: "internal_error", message: "A fault of the sandbox." } },
  };
}
