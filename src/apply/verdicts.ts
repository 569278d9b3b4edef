/** The sentence of each decision, without a full stop. */
export const VERDICT_SENTENCES = {
  applied: "It is the newest state",
  corrected: "The later updatedAt known before is refuted by a read, or was dated ahead of its observation",
  confirmed: "A later read showed the same content",
  stale: "A newer state was already known",
  refuted: "A read made after that updatedAt had not shown it, so it was not applied",
  duplicate: "Exactly this state was already known",
  ignored: "It contains nothing to apply",
  quarantined: "It could not be applied and is in quarantine",
  gone: "The provider answered that the order does not exist, so it is no longer served",
} as const;
/** The word that names a decision; the comment of mirror.history.verdict explains each. */
export type Verdict = keyof typeof VERDICT_SENTENCES;
