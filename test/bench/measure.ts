import { RUNS } from "./effort.ts";

export interface Sample {
  /** In the unit of the comparison. */
  readonly value: number;
  readonly p50Ms?: number;
  readonly p99Ms?: number;
  /** Failed units of work; a run with any is not compared. */
  readonly errors: number;
}

export interface Subject {
  readonly name: string;
  /** The target, in words; shown next to the figure. */
  readonly goal?: string;
  /** Set if it differs from that of the comparison; then there is no ratio to the limit. */
  readonly unit?: string;
  readonly run: () => Promise<Sample>;
}

/** Of the counted runs. */
export interface Spread {
  readonly min: number;
  readonly median: number;
  readonly max: number;
}

export interface Figure {
  readonly section: string;
  readonly name: string;
  readonly unit: string;
  readonly value: Spread;
  readonly p50Ms: Spread | null;
  readonly p99Ms: Spread | null;
  /** Median of the ratios to the limit, pair by pair; null for the limit itself, and without one. */
  readonly ofLimit: number | null;
  readonly goal: string | null;
}

export interface Comparison {
  readonly section: string;
  /** Unit of the values, such as `/s` or `ms`. */
  readonly unit: string;
  readonly subjects: readonly Subject[];
  /** The limit that they are compared with; it runs alternately with them. */
  readonly limit?: Subject;
}

/**
 * Runs the subjects and the limit alternately, once to warm up and then RUNS times, so that drift of the machine affects
 * all equally. Throws when a run had errors, because such runs cannot be compared.
 */
export async function compare({ section, unit, subjects, limit }: Comparison): Promise<Figure[]> {
  const all = limit ? [...subjects, limit] : subjects;
  const samples = new Map<Subject, Sample[]>(all.map((subject) => [subject, []]));
  for (let run = 0; run <= RUNS; run += 1) {
    for (const subject of all) {
      const sample = await subject.run();
      if (sample.errors > 0)
        throw new Error(`${section}: ${subject.name} had ${sample.errors} errors in run ${run}`);
      const shown = `${formatValue(sample.value)} ${subject.unit ?? unit}`;
      process.stderr.write(`  ${section} · run ${run} of ${RUNS} · ${subject.name}: ${shown}\n`);
      if (run > 0) samples.get(subject)?.push(sample);
    }
  }
  const limits = limit ? (samples.get(limit) ?? []) : [];
  return all.map((subject) => {
    const own = samples.get(subject) ?? [];
    const isCompared = subject !== limit && subject.unit === undefined;
    return { section, unit: subject.unit ?? unit, ...toFigure(subject, own, isCompared ? limits : []) };
  });
}

function toFigure(
  subject: Subject,
  samples: readonly Sample[],
  limits: readonly Sample[],
): Omit<Figure, "section" | "unit"> {
  const values = samples.map(({ value }) => value);
  const ratios = limits.map((limit, run) => (values[run] ?? 0) / limit.value);
  const spreadKnown = (times: readonly (number | undefined)[]) => {
    const known = times.filter((time) => time !== undefined);
    return known.length === 0 ? null : spread(known);
  };
  return {
    name: subject.name,
    value: spread(values),
    p50Ms: spreadKnown(samples.map(({ p50Ms }) => p50Ms)),
    p99Ms: spreadKnown(samples.map(({ p99Ms }) => p99Ms)),
    ofLimit: ratios.length === 0 ? null : median(ratios),
    goal: subject.goal ?? null,
  };
}

function spread(values: readonly number[]): Spread {
  return { min: Math.min(...values), median: median(values), max: Math.max(...values) };
}

function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** The quantile at `at`, from 0 to 1; NaN without values. */
export function quantile(values: readonly number[], at: number): number {
  const sorted = [...values].sort((left, right) => left - right);
  return sorted[Math.floor(sorted.length * at)] ?? Number.NaN;
}

/** Whole numbers from a hundred on, two decimals below. */
function formatValue(value: number): string {
  return value >= 100 ? String(Math.round(value)) : String(Math.round(value * 100) / 100);
}

export const FIGURE_HEAD = ["what", "median (min–max)", "p50", "p99", "of limit", "goal"];

/** A row below FIGURE_HEAD. Of p50 only the median; goals limit the p99 of each run. */
export function writeFigure({ name, unit, value, p50Ms, p99Ms, ofLimit, goal }: Figure): string[] {
  return [
    name,
    `${writeSpread(value, formatValue)} ${unit}`,
    p50Ms === null ? "" : `${p50Ms.median.toFixed(1)} ms`,
    p99Ms === null ? "" : `${writeSpread(p99Ms, (ms) => ms.toFixed(1))} ms`,
    ofLimit === null ? "" : ofLimit.toFixed(2),
    goal ?? "",
  ];
}

function writeSpread(values: Spread, write: (value: number) => string): string {
  return `${write(values.median)} (${write(values.min)}–${write(values.max)})`;
}
