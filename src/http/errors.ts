import { OrderMirrorError } from "../domain/errors.ts";
import { ASSUMED_CODES } from "../wire/api.ts";

/**
 * A request that the read API refuses because of the client, never because of us.
 *
 * `code` and `message` are sent to the client unchanged, so they are constant or name parameters, never values.
 */
export class RefusedRequestError extends OrderMirrorError {
  override readonly name = "RefusedRequestError";
  override readonly retry = "never";
  readonly status: number;
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;

  constructor(refusal: {
    status: number;
    code: string;
    message: string;
    headers?: Readonly<Record<string, string>>;
  }) {
    super(refusal.message);
    this.status = refusal.status;
    this.code = refusal.code;
    this.headers = refusal.headers ?? {};
  }
}

export const NO_SUCH_ADDRESS = {
  status: 404,
  code: "not_found",
  message: "There is nothing at this address.",
};

/** 422; the code is assumed, because the spec names none. */
export function refuseParameter(
  message: string,
  code: string = ASSUMED_CODES.invalidRequest,
): RefusedRequestError {
  return new RefusedRequestError({ status: 422, code, message });
}
