import { OrderMirrorError } from "../domain/errors.ts";

/**
 * The inbox did not confirm an event in time: Postgres is away, slow or frozen, or too much waits for it already.
 * The outcome is unknown, as the row may have been written; the sender's next try finds out, as a duplicate.
 */
export class InboxUnavailableError extends OrderMirrorError {
  override readonly name = "InboxUnavailableError";
  override readonly retry = "later";
}

/** Postgres refuses this one event because of its content or our setup; trying again would not help. */
export class EventRefusedError extends OrderMirrorError {
  override readonly name = "EventRefusedError";
  override readonly retry = "never";
}
