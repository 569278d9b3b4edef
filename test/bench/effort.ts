/** `--quick` checks that the bench works: one run with a tenth of the work, whose figures mean nothing. */
const QUICK = process.argv.includes("--quick");

/** Counted runs, in addition to the warm-up run. */
export const RUNS = QUICK ? 1 : readRuns();

/** An amount of work, or its part with --quick. */
export function amount(units: number): number {
  return QUICK ? Math.ceil(units / 10) : units;
}

function readRuns(): number {
  const option = process.argv.find((argument) => argument.startsWith("--runs="));
  return option === undefined ? 5 : Number(option.slice("--runs=".length));
}
