/** Each quarantine reason, with its meaning and remedy. */
export const REASONS: Readonly<
  Record<string, { readonly name: string; readonly why: string; readonly mend: string }>
> = {
  wrong_mode: {
    name: "Test/live mix-up",
    why: "A live order arrived for a test source, or the other way round; the two must never mix.",
    mend: "Correct the address at the provider, or the key of the source. Processing the same input again fails.",
  },
  not_json: {
    name: "Not JSON",
    why: "The signature is right, but the body is not JSON in UTF-8.",
    mend: "Ask the provider what it sent. Processing it again fails; dismiss it with a note of the answer.",
  },
  not_an_envelope: {
    name: "Not an order event",
    why: "The body is JSON, but not an event with an order.",
    mend: "Ask the provider what it sent. Process it again after an update of this program that knows the format.",
  },
  unreadable_order: {
    name: "Unreadable order",
    why: "A field that is needed to compare orders is missing or invalid.",
    mend: "Process it again after an update of this program, or read the order again on its page.",
  },
  unreadable_singly: {
    name: "Cannot be read again",
    why: "The single read of this order keeps failing; the provider's answer is shown here.",
    mend: "Ask the provider about this order. It is retried every six hours, and leaves the quarantine once it can be read.",
  },
  dated_ahead: {
    name: "Dated in the future",
    why: "The change is dated more than five minutes ahead of the provider's clock.",
    mend: "Wait: it is processed when that time has come, and dismissed if a read made since does not show it.",
  },
  refused_by_database: {
    name: "Refused by the database",
    why: "Postgres refused the content; its error code is shown here.",
    mend: "Look up the code, fix the cause, and process it again.",
  },
};
/** A reason for people; one that this program version does not know as it is stored. */
export function describeReason(reason: string): { name: string; why: string; mend: string } {
  return (
    REASONS[reason] ?? {
      name: reason,
      why: "This program version does not know this reason.",
      mend: "Process it again.",
    }
  );
}
