import { OrderMirrorError } from "../errors.ts";

export type SourceFailure =
  /** Concerns every request. */
  | "key_refused"
  | "not_found"
  /** Passing: it may end by itself. */
  | "rate_limited"
  | "timeout"
  | "unavailable"
  /** Concerns one answer. */
  | "unreadable"
  /** More bytes than an answer may have. */
  | "too_large"
  | "refused";

/** Base class of what an OrderSource throws for a request. */
export abstract class SourceError extends OrderMirrorError {
  abstract readonly failure: SourceFailure;
}

/** Undefined for an error that no source threw. */
export function failureOf(error: unknown): SourceFailure | undefined {
  return error instanceof SourceError ? error.failure : undefined;
}
