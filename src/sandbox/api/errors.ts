import { OrderMirrorError } from "../../domain/errors.ts";
import { ASSUMED_CODES } from "../../wire/api.ts";

/**
 * A request that the provider refuses, as the spec's table has it ("Errors"). The message may go to the caller;
 * it holds nothing of the request's content. Not for faults that are switched on: those are no decision.
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

/** 404 with one text for every cause: another mode and another organization must look like no order at all. */
export function makeOrderNotFound(): SandboxRefusalError {
  return new SandboxRefusalError(404, "order_not_found", "No order has this reference or externalOrderId.");
}

/** Assumed: the spec shows no code for a request that is malformed. */
export function makeInvalidRequest(message: string): SandboxRefusalError {
  return new SandboxRefusalError(422, ASSUMED_CODES.invalidRequest, message);
}
