/** What two ways of observing the same population saw. */
export interface Captures {
  /** Seen in the first way, whether also in the second or not. */
  readonly first: number;
  readonly second: number;
  readonly both: number;
}

/** How many neither way saw, with a 95 % interval. */
export interface UnseenEstimate {
  readonly unseen: number;
  readonly low: number;
  readonly high: number;
}

/** With fewer in common, the estimate says more about chance than about the population. */
export const COMMON_MIN = 30;
/** Half of the 95 % quantile of chi-squared with one degree of freedom. */
const LOG_LIKELIHOOD_DROP = 1.920_729;

/**
 * Estimates how many members of a closed population neither of two independent ways saw; undefined if too few were seen
 * in both.
 *
 * The estimate is Chapman's. The interval is that of the profile likelihood: Chapman's normal approximation and its
 * logarithmic variants fail where nearly everything is seen in both ways, which is the usual case here.
 */
export function estimateUnseen({ first, second, both }: Captures): UnseenEstimate | undefined {
  if (both < COMMON_MIN) return undefined;
  const seen = first + second - both;
  const unseen = ((first - both) * (second - both)) / (both + 1);
  const likelihood = (size: number) => logLikelihood(size, { first, second, seen });
  const best = Math.max(seen, Math.floor((first * second) / both));
  const floor = Math.max(likelihood(best), likelihood(best + 1)) - LOG_LIKELIHOOD_DROP;
  const isPlausible = (size: number) => likelihood(size) >= floor;
  const low = isPlausible(seen) ? seen : searchBorder(best, seen, isPlausible);
  let beyond = best + 1;
  while (isPlausible(beyond)) beyond = best + 2 * (beyond - best);
  const high = searchBorder(best, beyond, isPlausible);
  return {
    unseen,
    low: Math.min(low - seen, Math.floor(unseen)),
    high: Math.max(high - seen, Math.ceil(unseen)),
  };
}

/** The last plausible whole number on the way from `inside`, which is plausible, to `outside`, which is not. */
function searchBorder(inside: number, outside: number, isPlausible: (size: number) => boolean): number {
  let [yes, no] = [inside, outside];
  while (Math.abs(yes - no) > 1) {
    const middle = Math.trunc((yes + no) / 2);
    if (isPlausible(middle)) yes = middle;
    else no = middle;
  }
  return yes;
}

/** Of a population of `size`, with the most likely chance of each way; without the terms that do not depend on it. */
function logLikelihood(size: number, captures: { first: number; second: number; seen: number }): number {
  const { first, second, seen } = captures;
  const chance = (caught: number) =>
    caught * Math.log(caught / size) + (size > caught ? (size - caught) * Math.log1p(-caught / size) : 0);
  return logFactorial(size) - logFactorial(size - seen) + chance(first) + chance(second);
}

/** Stirling's series from 20 on: exact to 1e-10. */
function logFactorial(whole: number): number {
  if (whole < 20) {
    let sum = 0;
    for (let factor = 2; factor <= whole; factor += 1) sum += Math.log(factor);
    return sum;
  }
  const x = whole + 1;
  return (x - 0.5) * Math.log(x) - x + Math.log(2 * Math.PI) / 2 + 1 / (12 * x) - 1 / (360 * x ** 3);
}
