import { RefusedRequestError } from "../../wire/refusal.ts";

/** A refusal listed in the spec ("Errors"). Injected faults do not use it: they are not decisions of the provider. */
export function refused(
  status: number,
  code: string,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): RefusedRequestError {
  return new RefusedRequestError({ status, code, message, headers });
}
