import { OrderMirrorError } from "../../domain/errors.ts";

/** A window has more pages than one transaction takes; a shorter window has fewer. Not a fault of the provider. */
export class WalkTooLargeError extends OrderMirrorError {
  override readonly name = "WalkTooLargeError";
  override readonly retry = "later";
}

/** The provider promises more orders but does not deliver them, or repeats the same ones. */
export class WalkStalledError extends OrderMirrorError {
  override readonly name = "WalkStalledError";
  override readonly retry = "later";
}

/** The database does not know pages that this process has applied; the window is read again. */
export class WalkForgottenError extends OrderMirrorError {
  override readonly name = "WalkForgottenError";
  override readonly retry = "later";
}

/** The reason for work aborted by closing the poller. */
export class PollerClosedError extends OrderMirrorError {
  override readonly name = "PollerClosedError";
  override readonly retry = "never";
}
