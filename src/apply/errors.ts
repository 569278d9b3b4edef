import { isDatabaseAway } from "../database/databaseErrors.ts";
import { OrderMirrorError } from "../domain/errors.ts";

/** The database could not decide on a batch now; nothing was written, and the batch may be retried unchanged. */
export class ApplyInterruptedError extends OrderMirrorError {
  override readonly name = "ApplyInterruptedError";
  override readonly retry = "later";
}

/** The error to reject with: ApplyInterruptedError with `message` if the database is away or busy. */
export function toInterrupted(error: unknown, message: string): unknown {
  return isDatabaseAway(error) ? new ApplyInterruptedError(message, { cause: error }) : error;
}
