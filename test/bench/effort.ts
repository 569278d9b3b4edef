/** `--quick` proves that the bench runs: one run of a tenth of the work, whose figures mean nothing. */
const QUICK = process.argv.includes("--quick");

const ASKED = process.argv.find((argument) => argument.startsWith("--runs="))?.slice("--runs=".length);

/** Runs that count, beside the one that warms up. */
export const RUNS = QUICK ? 1 : Number(ASKED ?? 5);

/** An amount of work, or what --quick leaves of it. */
export function amount(units: number): number {
  return QUICK ? Math.ceil(units / 10) : units;
}
