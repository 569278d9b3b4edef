import { OrderMirrorError } from "../domain/errors.ts";

/** The database could not decide on a batch now; nothing was written, and the batch may be retried unchanged. */
export class ApplyInterruptedError extends OrderMirrorError {
  override readonly name = "ApplyInterruptedError";
  override readonly retry = "later";
}
