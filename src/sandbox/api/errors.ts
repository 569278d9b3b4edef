import { OrderMirrorError } from "../../domain/errors.ts";
import { ASSUMED_CODES } from "../../wire/api.ts";

/**
 * A refusal listed in the spec ("Errors"). The message may go to the caller; it contains nothing of the request's
 * content. Injected faults do not use it: they are not decisions of the provider.
 */
export class SandboxRefusalError extends OrderMirrorError {
  override readonly name = "SandboxRefusalError";
  override readonly retry = "never";
  readonly status: number;
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, code: string, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

/** 404 with one text for every cause: an order of another mode or organization must look nonexistent. */
export function makeOrderNotFound(): SandboxRefusalError {
  return new SandboxRefusalError(404, "order_not_found", "No order has this reference or externalOrderId.");
}

/** Assumed: the spec shows no code for a malformed request. */
export function makeInvalidRequest(message: string): SandboxRefusalError {
  return new SandboxRefusalError(422, ASSUMED_CODES.invalidRequest, message);
}
