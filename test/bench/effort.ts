/** `--quick` checks that the bench works: one run with a tenth of the work, whose figures mean nothing. */
const QUICK = process.argv.includes("--quick");

/** Counted runs, in addition to the warm-up run. */
export const RUNS = QUICK ? 1 : askedNumber("runs", 5);

/** How often a comparison of two versions measures each. */
export const ROUNDS = QUICK ? 1 : askedNumber("rounds", 3);

/** An amount of work, or its part with --quick. */
export function amount(units: number): number {
  return QUICK ? Math.ceil(units / 10) : units;
}

function askedNumber(name: string, otherwise: number): number {
  const option = process.argv.find((argument) => argument.startsWith(`--${name}=`));
  return option === undefined ? otherwise : Number(option.slice(`--${name}=`.length));
}
