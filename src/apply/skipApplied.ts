/** Some seconds of as many events as can come in: a job comes 100 ms after its hint. */
const REMEMBERED_MAX = 20_000;

type ApplySeqs = (seqs: readonly number[]) => Promise<void>;

/**
 * Makes a job skip the events that were decided after their hint, in this process: to read them again
 * from the inbox costs Postgres a twentieth of applying them.
 *
 * An event is skipped once: when its job comes again, or it is hinted at again, it is applied as any other.
 */
export function skipApplied(apply: ApplySeqs): {
  readonly applyHint: ApplySeqs;
  readonly applyJob: ApplySeqs;
} {
  const decided = new Set<number>();
  return {
    async applyHint(seqs) {
      await apply(seqs);
      // Jobs went to other workers; what is forgotten here is read once more.
      if (decided.size + seqs.length > REMEMBERED_MAX) decided.clear();
      for (const seq of seqs) decided.add(seq);
    },
    async applyJob(seqs) {
      const left = seqs.filter((seq) => !decided.delete(seq));
      if (left.length > 0) await apply(left);
    },
  };
}
