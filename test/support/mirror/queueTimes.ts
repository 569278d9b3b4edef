/** Times of a worker whose death is noticed in about a second, instead of ten seconds as in the product. */
export const SHORT_LIVED_WORKER = { lockDuration: 500, stalledInterval: 500 } as const;
