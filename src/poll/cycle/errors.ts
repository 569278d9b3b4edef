import { OrderMirrorError } from "../../domain/errors.ts";

/** A window has more pages than one walk may read; a shorter one has fewer. Not a fault of the provider's. */
export class WalkTooLargeError extends OrderMirrorError {
  override readonly name = "WalkTooLargeError";
  override readonly retry = "later";
}

/** The provider promises more orders and does not give them, or gives the same ones again and again. */
export class WalkStalledError extends OrderMirrorError {
  override readonly name = "WalkStalledError";
  override readonly retry = "later";
}

/** The database does not know pages that this process has read; the window is gone on with as the database knows it. */
export class WalkForgottenError extends OrderMirrorError {
  override readonly name = "WalkForgottenError";
  override readonly retry = "later";
}

/** Reason of what is broken off by closing the poller. */
export class PollerClosedError extends OrderMirrorError {
  override readonly name = "PollerClosedError";
  override readonly retry = "never";
}
