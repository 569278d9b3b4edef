import type { Pool } from "../../src/database/database.ts";
import type { Figure } from "./measure.ts";

/** A section's environment: its own durable, migrated server with the source `live`. */
export interface BenchDeps {
  readonly pool: Pool;
  readonly databaseUrl: string;
  /** Registers a function to call at the end of the section, the last one first. */
  readonly onEnd: (stop: () => Promise<void>) => void;
}

export type Bench = (deps: BenchDeps) => Promise<Figure[]>;
