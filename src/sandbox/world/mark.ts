/** Marks every response and every event, so that nobody mistakes the sandbox for the provider. */
export const MARK = { "X-Order-Mirror-Sandbox": "1" } as const;
