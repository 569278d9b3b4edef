/** Marks every response and every event: nobody should take the sandbox for the provider. */
export const MARK = { "X-Order-Mirror-Sandbox": "1" } as const;
