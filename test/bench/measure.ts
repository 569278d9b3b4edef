/** One run of one subject. */
export interface Sample {
  /** Units of work per second. */
  readonly perSecond: number;
  readonly p50Ms?: number;
  readonly p99Ms?: number;
  /** Failed units; a run with any is not compared. */
  readonly errors: number;
}

export interface Subject {
  readonly name: string;
  readonly run: () => Promise<Sample>;
}

export interface Figure {
  readonly section: string;
  readonly name: string;
  readonly perSecond: { readonly min: number; readonly median: number; readonly max: number };
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
  /** Median of the ratios to the limit, pair by pair; null for the limit itself. */
  readonly ofLimit: number | null;
}

const RUNS = 5;

/**
 * Runs the subjects in turn, once to warm up and then RUNS times, so that drift of the machine meets all alike. The
 * last subject is the limit. Throws when a run had errors: such runs cannot be compared.
 */
export async function compare(section: string, subjects: readonly Subject[]): Promise<Figure[]> {
  const samples = new Map<Subject, Sample[]>(subjects.map((subject) => [subject, []]));
  for (let run = 0; run <= RUNS; run += 1) {
    for (const subject of subjects) {
      const sample = await subject.run();
      if (sample.errors > 0)
        throw new Error(`${section}: ${subject.name} had ${sample.errors} errors in run ${run}`);
      process.stderr.write(
        `  ${section} · run ${run} of ${RUNS} · ${subject.name}: ${Math.round(sample.perSecond)}/s\n`,
      );
      if (run > 0) samples.get(subject)?.push(sample);
    }
  }
  const limit = subjects.at(-1);
  const limits = limit ? (samples.get(limit) ?? []) : [];
  return subjects.map((subject) =>
    toFigure(section, subject, samples.get(subject) ?? [], subject === limit ? [] : limits),
  );
}

function toFigure(
  section: string,
  subject: Subject,
  samples: readonly Sample[],
  limits: readonly Sample[],
): Figure {
  const rates = samples.map((sample) => sample.perSecond);
  const ratios = limits.map((limit, run) => (rates[run] ?? 0) / limit.perSecond);
  const optional = (values: readonly (number | undefined)[]) => {
    const known = values.filter((value) => value !== undefined);
    return known.length === 0 ? null : median(known);
  };
  return {
    section,
    name: subject.name,
    perSecond: { min: Math.min(...rates), median: median(rates), max: Math.max(...rates) },
    p50Ms: optional(samples.map((sample) => sample.p50Ms)),
    p99Ms: optional(samples.map((sample) => sample.p99Ms)),
    ofLimit: ratios.length === 0 ? null : median(ratios),
  };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
