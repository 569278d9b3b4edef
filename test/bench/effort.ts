/** `--quick` checks that the bench works: one run with a tenth of the work, whose figures mean nothing. */
const QUICK = process.argv.includes("--quick");

const ASKED = process.argv.find((argument) => argument.startsWith("--runs="))?.slice("--runs=".length);

/** Counted runs, in addition to the warm-up run. */
export const RUNS = QUICK ? 1 : Number(ASKED ?? 5);

/** An amount of work, or its part with --quick. */
export function amount(units: number): number {
  return QUICK ? Math.ceil(units / 10) : units;
}
