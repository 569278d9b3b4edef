import { OrderMirrorError } from "../errors.ts";

/**
 * Why a source did not deliver. `key_refused` concerns every request, `not_found` one order, `timeout` and
 * `unavailable` the moment, `unreadable` one answer; `refused` is any other refusal.
 */
export type SourceFailure =
  "key_refused" | "not_found" | "rate_limited" | "timeout" | "unavailable" | "unreadable" | "refused";

/** Base class of what an OrderSource throws for a request. */
export abstract class SourceError extends OrderMirrorError {
  abstract readonly failure: SourceFailure;
}

/** Undefined for an error that no source threw. */
export function failureOf(error: unknown): SourceFailure | undefined {
  return error instanceof SourceError ? error.failure : undefined;
}
