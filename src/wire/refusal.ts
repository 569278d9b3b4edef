import { OrderMirrorError } from "../domain/errors.ts";
import { ASSUMED_CODES } from "./api.ts";

interface Refusal {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * A request that is refused because of the client, never because of us, with the texts that the provider is assumed to
 * have, so that a client sees no difference.
 *
 * `code` and `message` are sent to the client unchanged, so they are constant or name parameters, never values.
 */
export class RefusedRequestError extends OrderMirrorError {
  override readonly name = "RefusedRequestError";
  override readonly retry = "never";
  readonly status: number;
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;

  constructor({ status, code, message, headers = {} }: Refusal) {
    super(message);
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

/** Assumed: the code; the spec shows no error for an unknown path. */
export const NO_SUCH_ADDRESS: Refusal = {
  status: 404,
  code: "not_found",
  message: "There is nothing at this address.",
};

/** Answers every cause alike: an order of another mode or organization must look nonexistent (spec, "Endpoints"). */
export const ORDER_NOT_FOUND: Refusal = {
  status: 404,
  code: "order_not_found",
  message: "No order has this reference or externalOrderId.",
};

export const INVALID_API_KEY: Refusal = {
  status: 401,
  code: "invalid_api_key",
  message: "The API key is missing or unknown.",
  headers: { "WWW-Authenticate": "Bearer" },
};

/** Assumed: status and code. `methods` are those of the address. */
export function refuseMethod(methods: readonly string[]): RefusedRequestError {
  return new RefusedRequestError({
    status: 405,
    code: "method_not_allowed",
    message: "The address has no such method.",
    headers: { Allow: methods.join(", ") },
  });
}

/** 422; the code is assumed, because the spec names none. */
export function refuseParameter(
  message: string,
  code: string = ASSUMED_CODES.invalidRequest,
): RefusedRequestError {
  return new RefusedRequestError({ status: 422, code, message });
}

/** 422; the spec only says that it is an error. */
export function refuseBranch(): RefusedRequestError {
  return refuseParameter("No branch has this reference or id.", ASSUMED_CODES.branchNotFound);
}

/** Makes the refusal 503: more of these requests at a time than this process takes. */
export function refuseBusy(code: string, message: string, retrySeconds: number): RefusedRequestError {
  return new RefusedRequestError({
    status: 503,
    code,
    message,
    headers: { "Retry-After": String(retrySeconds) },
  });
}
