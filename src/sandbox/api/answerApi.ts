import type { IncomingMessage } from "node:http";
import type { ApiAnswer } from "./apiRequest.ts";
import type { Endpoint } from "./endpoints.ts";
import type { Match } from "../../wire/endpoints.ts";
import { readBody } from "../http/readBody.ts";
import { untouchedHeaders } from "./rateLimits.ts";
import type { Allowance, Policy, RateLimiter } from "./rateLimits.ts";
import { modeOf } from "../world/directory.ts";
import type { Caller } from "../world/directory.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import { refused } from "./errors.ts";
import { INVALID_API_KEY, NO_SUCH_ADDRESS, RefusedRequestError, refuseMethod } from "../../wire/refusal.ts";

/** The details of a request for the journal, known when its answer is ready. */
export interface ApiOutcome {
  readonly answer: ApiAnswer;
  readonly caller: Caller | undefined;
}

const SUSTAINED: readonly Policy[] = ["sustained"];
const BEARER = /^bearer +(\S+)$/i;

/**
 * Answers one request to /v1. Checks key, budget, path, body and endpoint, in this order. Never throws for a client's
 * mistakes. `forced` answers instead of the endpoint, once key and budget are checked.
 */
export async function answerApi(options: {
  state: SandboxState;
  match: Match<Endpoint>;
  limiter: RateLimiter;
  request: IncomingMessage;
  query: URLSearchParams;
  forced: ApiAnswer | undefined;
}): Promise<ApiOutcome> {
  const { state, match, limiter, request, query, forced } = options;
  const { endpoint, reference, methods } = match;
  const policies = endpoint?.policies ?? SUSTAINED;
  const caller = findCaller(state, request.headers.authorization);
  if (!caller) {
    const answer = refuse(new RefusedRequestError(INVALID_API_KEY));
    return { answer: withHeaders(answer, untouchedHeaders(policies)), caller };
  }
  const allowance = limiter.take(accountOf(caller), policies);
  const headers = { ...allowance.headers, ...(endpoint?.sells ? warnOf(caller) : {}) };
  const answer = await answerAllowed({
    allowance,
    respond: async () => {
      if (forced) return forced;
      if (!endpoint) throw refusePath(methods);
      // The subscription is checked before the plan (spec, "Errors": 402, not 403).
      if (endpoint.sells) assertSubscribed(caller);
      assertPlan(caller);
      const body = endpoint.readsBody ? await readBody(request) : undefined;
      return endpoint.answer({ caller, reference, query, body });
    },
  });
  return { answer: withHeaders(answer, headers), caller };
}

/** The budget belongs to the organization, all keys together, with separate counters per mode (spec, "Limits"). */
function accountOf({ organization, livemode }: Caller): string {
  return `${organization.organizationId} ${modeOf(livemode)}`;
}

/** The body of a refusal. Assumed: the spec does not show its shape. */
export function refuse(error: RefusedRequestError): ApiAnswer {
  const { status, code, message, headers } = error;
  return { status, body: { error: { code, message } }, headers };
}

async function answerAllowed(options: {
  allowance: Allowance;
  respond: () => Promise<ApiAnswer>;
}): Promise<ApiAnswer> {
  const { refusal } = options.allowance;
  try {
    if (refusal) throw refuseRate(refusal);
    return await options.respond();
  } catch (error) {
    if (error instanceof RefusedRequestError) return refuse(error);
    throw error;
  }
}

function refuseRate(refusal: NonNullable<Allowance["refusal"]>): RefusedRequestError {
  const { policy, retryAfterSeconds } = refusal;
  const message = `Rate limit of the policy "${policy}" exceeded; retry after ${retryAfterSeconds} s.`;
  return refused(429, "rate_limit_exceeded", message, {
    "Retry-After": String(retryAfterSeconds),
  });
}

function refusePath(methods: readonly string[]): RefusedRequestError {
  return methods.length === 0 ? new RefusedRequestError(NO_SUCH_ADDRESS) : refuseMethod(methods);
}

/** Only endpoints that create orders need a paid subscription (spec, "Limits"). */
function assertSubscribed({ organization }: Caller): void {
  const { subscription } = organization;
  if (subscription === "active" || subscription === "past_due") return;
  throw refused(402, "subscription_inactive", `The subscription is ${subscription}.`);
}

/** Assumed: an organization without either plan may call nothing. */
function assertPlan({ organization }: Caller): void {
  if (organization.plan !== "none") return;
  throw refused(403, "feature_not_available", "The organization's plan has no API.");
}

/** Assumed: keys have no expiry and no scopes; a revoked key is unknown. */
function findCaller(state: SandboxState, authorization: string | undefined): Caller | undefined {
  const key = BEARER.exec(authorization ?? "")?.[1];
  return key === undefined ? undefined : state.directory.findCaller(key);
}

/** Only on creation and quote, and only while past_due (spec, "Limits"). */
function warnOf({ organization }: Caller): Record<string, string> {
  return organization.subscription === "past_due" ? { "Service-Subscription-State": "past_due" } : {};
}

function withHeaders(answer: ApiAnswer, headers: Readonly<Record<string, string>>): ApiAnswer {
  return { ...answer, headers: { ...headers, ...answer.headers } };
}
