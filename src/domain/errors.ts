/** Advice to a caller after a failure: never retry, retry later, or retry after a known wait. */
export type Retry = "never" | "later" | { readonly afterMs: number };

/**
 * Base class of every error that order-mirror throws on purpose.
 *
 * `message` is one sentence for the user, without secrets and personal data; `fix` names the next step, if there is
 * one. Not for bugs: those stay plain `TypeError`s and end the process.
 */
export abstract class OrderMirrorError extends Error {
  abstract override readonly name: string;
  abstract readonly retry: Retry;
  readonly fix: string | undefined;

  constructor(message: string, options: { cause?: unknown; fix?: string | undefined } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.fix = options.fix;
  }
}

/** Wrong usage or configuration; exit code 2. Not for an unavailable server. */
export class ConfigurationError extends OrderMirrorError {
  override readonly name = "ConfigurationError";
  override readonly retry = "never";
}

/** Something that this process needs (Postgres, Redis, a port, a folder) is unavailable; exit code 75. */
export class UnavailableError extends OrderMirrorError {
  override readonly name = "UnavailableError";
  override readonly retry = "later";
}

/** A timestamp that is not ISO 8601 with a time zone, or is outside the range of 64-bit nanoseconds. */
export class InvalidInstantError extends OrderMirrorError {
  override readonly name = "InvalidInstantError";
  override readonly retry = "never";
}

/** Input from the provider that can never be applied; it belongs in quarantine. */
export class UnreadableSnapshotError extends OrderMirrorError {
  override readonly name = "UnreadableSnapshotError";
  override readonly retry = "never";
}
