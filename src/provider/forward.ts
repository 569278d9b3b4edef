import type { Instant } from "../domain/order/instant.ts";
import { tryDecode, tryParseJson } from "../domain/parseJson.ts";
import { readOrderAnswer } from "./client.ts";
import type { OrderAnswer, ProviderClientDeps } from "./client.ts";
import type { PolicyName } from "./budget.ts";
import { ProviderError } from "./errors.ts";
import type { RawAnswer } from "./errors.ts";
import type { ProviderRequest } from "./exchange.ts";
import { makeProviderClock } from "./rate/providerClock.ts";
import { makeSafeWrites } from "./safeWrites.ts";
import { makeRetrying, makeTransport } from "./transport.ts";
import type { RequestOptions } from "./transport.ts";

/** A request from a client, to be sent with our key. */
export interface ForwardedRequest {
  readonly method: "POST" | "PUT" | "PATCH" | "DELETE";
  /** Path and query, unchanged, from `/v1/` on. */
  readonly path: string;
  readonly bytes?: Uint8Array<ArrayBuffer> | undefined;
  /** Aborted: the request is no longer sent. Once sent, it is completed. */
  readonly gone: AbortSignal;
}

export interface ForwardedAnswer extends RawAnswer {
  /** The provider's time at which the request started, a lower bound. */
  readonly requestedAt: Instant;
}

/**
 * Sends the request within the budget, and returns the provider's unchanged answer if it is a success.
 *
 * After an unknown outcome, a creation with an `externalOrderId` and a cancellation are sent again only after a
 * look-up; quotes and address checks are repeated freely; everything else is sent once. Throws a ProviderError: without an
 * answer if its turn is too far away or the path leads elsewhere, otherwise with the provider's refusal, if there was
 * one. Throws the reason of `gone` if that is aborted before the request is sent.
 */
export type Forward = (request: ForwardedRequest) => Promise<ForwardedAnswer>;

/** A caller has its own timeout, and often a person is waiting. */
const DELAY_MAX_MS = 5_000;
const CREATED = 201;

/** Throws ConfigurationError for a base address or key that no request can carry. */
export function makeForward(deps: ProviderClientDeps): Forward {
  const { budget, clock } = deps;
  const providerClock = makeProviderClock(clock);
  const send = makeRetrying({
    send: makeTransport({ ...deps, providerClock }),
    clock,
    random: Math.random,
  });

  async function sendSafely(
    { kind, reference, externalOrderId }: Recognized,
    first: RequestOptions,
    request: ProviderRequest,
  ): Promise<ForwardedAnswer> {
    const endpoint = `${request.method} ${request.route}`;
    let options = first;
    const write = async () => {
      const chosen = options;
      // Once the request was sent, only the provider knows whether it was carried out, so it can no longer be
      // abandoned.
      options = {};
      return readOrderAnswer(endpoint, await send(request, chosen));
    };
    const getOrder = async (name: string): Promise<OrderAnswer> => {
      const route = "/v1/orders/{reference}";
      const look = { method: "GET", route, reference: name, policy: "sustained", safe: true } as const;
      const found = readOrderAnswer(`GET ${route}`, await send(look, {}));
      return kind === "create" ? { ...found, answer: { ...found.answer, status: CREATED } } : found;
    };
    const plain = { createOrder: write, cancelOrder: write, getOrder };
    const safe = makeSafeWrites({ plain, clock, providerClock, random: Math.random });
    const done =
      kind === "create" ? await safe.createOrder({ externalOrderId }) : await safe.cancelOrder(reference);
    return { ...done.answer, requestedAt: done.requestedAt };
  }

  return async function forward({ method, path, bytes, gone }) {
    const recognized = recognize({ method, path, bytes });
    const { kind, route, policy } = recognized;
    const refuse = (delayMs: number) => makeCrowdedError(`${method} ${route}`, policy, delayMs);
    const delayMs = budget.expectDelayMs(policy);
    if (delayMs > DELAY_MAX_MS) throw refuse(delayMs);
    const turn = new AbortController();
    const leave = () => turn.abort(gone.reason);
    const timer = setTimeout(() => turn.abort(refuse(budget.expectDelayMs(policy))), DELAY_MAX_MS);
    gone.addEventListener("abort", leave);
    const options = { turnSignal: turn.signal };
    const request = { method, route, path, bytes, policy, safe: kind === "read" };
    try {
      gone.throwIfAborted();
      if (kind === "create" || kind === "cancel") return await sendSafely(recognized, options, request);
      return await send(request, options);
    } finally {
      clearTimeout(timer);
      gone.removeEventListener("abort", leave);
    }
  };
}

interface Recognized {
  /** `read` changes nothing at the provider. */
  readonly kind: "create" | "cancel" | "read" | "write";
  /** The only part that errors and log lines show. */
  readonly route: string;
  readonly policy: PolicyName;
  readonly reference: string;
  readonly externalOrderId: string | undefined;
}

const CANCEL = /^\/v1\/orders\/([^/]+)\/cancel$/;
const READS = new Set(["/v1/orders/quote", "/v1/addresses/validate"]);

/** Classifies the endpoint as in the spec; an unknown path is an ordinary write. */
function recognize({ method, path, bytes }: Pick<ForwardedRequest, "method" | "path" | "bytes">): Recognized {
  const [route = ""] = path.split("?");
  const other = {
    kind: "write",
    route: "/v1/{other}",
    policy: "sustained",
    reference: "",
    externalOrderId: undefined,
  } as const;
  if (method !== "POST") return other;
  if (READS.has(route)) return { ...other, kind: "read", route, policy: "geocoding" };
  if (route === "/v1/orders") {
    const externalOrderId = readExternalOrderId(bytes);
    return { ...other, kind: "create", route, policy: "geocoding", externalOrderId };
  }
  const reference = tryDecode(CANCEL.exec(route)?.[1] ?? "") ?? "";
  return reference === ""
    ? other
    : { ...other, kind: "cancel", route: "/v1/orders/{reference}/cancel", reference };
}

/** Undefined if it is absent or the body is invalid: then the provider will refuse it. */
function readExternalOrderId(bytes: Uint8Array | undefined): string | undefined {
  const body = tryParseJson(new TextDecoder().decode(bytes));
  const id = typeof body === "object" && body !== null && "externalOrderId" in body && body.externalOrderId;
  return typeof id === "string" ? id : undefined;
}

function makeCrowdedError(endpoint: string, policy: PolicyName, delayMs: number): ProviderError {
  const text = `${endpoint} was not sent: its turn is too far away`;
  const retry = { afterMs: delayMs };
  return new ProviderError(text, { failure: "rate_limited", code: "rate_limit_exceeded", policy, retry });
}
