/** A few seconds of events at the maximum rate: a job arrives 100 ms after its hint. */
const REMEMBERED_MAX = 20_000;

type ApplySeqs = (seqs: readonly number[]) => Promise<void>;

/**
 * Makes a job skip events that this process decided because of their hint: reading them again from the inbox costs
 * Postgres a twentieth of applying them.
 *
 * An event is skipped once: if its job or hint arrives again, it is applied like any other.
 */
export function skipApplied(apply: ApplySeqs): {
  readonly applyHint: ApplySeqs;
  readonly applyJob: ApplySeqs;
} {
  const decided = new Set<number>();
  return {
    async applyHint(seqs) {
      await apply(seqs);
      // Jobs may have gone to other workers; forgotten positions are read once more.
      if (decided.size + seqs.length > REMEMBERED_MAX) decided.clear();
      for (const seq of seqs) decided.add(seq);
    },
    async applyJob(seqs) {
      const left = seqs.filter((seq) => !decided.delete(seq));
      if (left.length > 0) await apply(left);
    },
  };
}
