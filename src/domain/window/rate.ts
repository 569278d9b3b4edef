/** At most `requestsMax` in any `windowMs`. */
export interface RateRule {
  readonly requestsMax: number;
  readonly windowMs: number;
}

/** Our share of a limit by default; the rest is for other users of the keys, and clock differences. */
const SHARE_DEFAULT = 0.9;

/** Our share of a limit, 18 of 20 by default; never less than one request. */
export function takeShare({ requestsMax, windowMs }: RateRule, share = SHARE_DEFAULT): RateRule {
  return { requestsMax: Math.max(1, Math.floor(requestsMax * share)), windowMs };
}
