import { OrderMirrorError } from "../errors.ts";

/**
 * Why a source did not give what it was asked for: `key_refused` concerns every request, `not_found` the one order,
 * `timeout` and `unavailable` the moment, `unreadable` the one answer; `refused` is any other refusal.
 */
export type SourceFailure =
  "key_refused" | "not_found" | "rate_limited" | "timeout" | "unavailable" | "unreadable" | "refused";

/** Base of what an OrderSource throws for a request. */
export abstract class SourceError extends OrderMirrorError {
  abstract readonly failure: SourceFailure;
}

/** Undefined for an error that no source threw. */
export function failureOf(error: unknown): SourceFailure | undefined {
  return error instanceof SourceError ? error.failure : undefined;
}
