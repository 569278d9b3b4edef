import type { Pool } from "../../src/database/database.ts";
import type { Figure } from "./measure.ts";

/** What a section measures with: a durable, migrated server of its own with the source `live`. */
export interface BenchDeps {
  readonly pool: Pool;
  readonly databaseUrl: string;
  /** Makes another migrated database with the source `live` on the same server, and returns its address. */
  readonly addDatabase: (name: string) => Promise<string>;
  /** Has something stopped at the end of the section, the last one first. */
  readonly onEnd: (stop: () => Promise<void>) => void;
}

export type Bench = (deps: BenchDeps) => Promise<Figure[]>;
