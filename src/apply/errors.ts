import { isDatabaseAway } from "../database/databaseErrors.ts";
import { withReason } from "../database/explainDatabaseError.ts";
import { OrderMirrorError } from "../domain/errors.ts";

/** The database could not decide now, or its answer was lost; the same may be passed again unchanged. */
export class ApplyInterruptedError extends OrderMirrorError {
  override readonly name = "ApplyInterruptedError";
  override readonly retry = "later";
}

/** The error to reject with: ApplyInterruptedError with `message`, and the reason if it is known, if the database is away or busy. */
export function toInterrupted(error: unknown, message: string): unknown {
  return isDatabaseAway(error)
    ? new ApplyInterruptedError(withReason(message, error), { cause: error })
    : error;
}
