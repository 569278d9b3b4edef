/** Times of a worker whose death is noticed in about a second, where the product's takes ten. */
export const SHORT_LIVED_WORKER = { lockDuration: 500, stalledInterval: 500 } as const;
