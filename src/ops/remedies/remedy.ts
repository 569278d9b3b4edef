import type { Pool } from "../../database/database.ts";

export interface Plan {
  readonly lines: readonly string[];
  /** Exactly how much there is. */
  readonly count: number;
}

/** A remedy that an operator can apply to a source, or to an endpoint of outgoing webhooks, from these pages. */
export interface Remedy {
  readonly title: string;
  readonly action: string;
  /** What it would affect, the first lines of it; nothing to do while it is empty. */
  readonly plan: (pool: Pool, name: string) => Promise<Plan>;
  readonly button: (count: number) => string;
  readonly effect: string;
  /** Resolves with the number of things affected. */
  readonly apply: (pool: Pool, name: string) => Promise<number>;
}

export const makePlan = (lines: readonly string[]): Plan => ({ lines, count: lines.length });
