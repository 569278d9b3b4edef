/** Times of a worker whose death is noticed in about a second, instead of ten seconds as in the product. */
export const SHORT_LIVED_WORKER = { lockDuration: 500, stalledInterval: 500 } as const;
/** The product begins with a second. */
export const SHORT_BACKOFF = { backoff: { type: "exponential", delay: 100, jitter: 0.5 } } as const;
