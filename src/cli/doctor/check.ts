import type { OpenDatabase } from "../../roles/openDatabase.ts";
import { OrderMirrorError } from "../../domain/errors.ts";
import type { Pool } from "../../database/database.ts";
import { explainDatabaseError } from "../../database/explainDatabaseError.ts";
import type { SourceFigures } from "../../health/readMetrics.sql.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import type { Config, SourceConfig } from "../../runtime/config/config.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";

export type Level = "ok" | "warning" | "problem";

/** What a check found: one sentence, and what to do about it unless all is well. Neither holds a secret. */
export interface Finding {
  readonly check: string;
  readonly level: Level;
  readonly sentence: string;
  readonly fix?: string;
}

export type Remark = Omit<Finding, "check">;

/** What the checks look at. */
export interface Patient {
  readonly config: Config;
  readonly database: OpenDatabase;
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Public address of the web process as the provider has it; null: look at HOST and PORT here. */
  readonly publicUrl: string | null;
}

/** One thing to look at. A check never changes anything that somebody would notice. */
export interface Check {
  readonly name: string;
  /** `schema`: only when the tables are there and current. */
  readonly needs: "database" | "schema";
  /** Its problems mean that the schema cannot be relied on. */
  readonly provesSchema?: true;
  run(patient: Patient, signal: AbortSignal): Promise<readonly Remark[]>;
}

export const ok = (sentence: string): Remark => ({ level: "ok", sentence });
export const warning = (sentence: string, fix: string): Remark => ({ level: "warning", sentence, fix });
export const problem = (sentence: string, fix: string): Remark => ({ level: "problem", sentence, fix });

/** The configured sources with their figures; where none is configured, as beside a demo, those of the database. */
export function pairSources(
  { config }: Pick<Patient, "config">,
  figures: readonly SourceFigures[],
): { figures: SourceFigures; source: SourceConfig | undefined }[] {
  if (config.sources.length === 0) return figures.map((each) => ({ figures: each, source: undefined }));
  return config.sources.flatMap((source) => {
    const found = figures.find(({ sourceId }) => sourceId === source.sourceId);
    return found === undefined ? [] : [{ figures: found, source }];
  });
}

/** What a failed check has to say. */
export function toRemark(thrown: unknown): Remark {
  const error = thrown instanceof OrderMirrorError ? thrown : (explainDatabaseError(thrown) ?? thrown);
  if (error instanceof OrderMirrorError) {
    return problem(error.message, error.fix ?? "Try again; LOG_LEVEL=debug shows more.");
  }
  const code = (error as { code?: unknown } | undefined)?.code;
  const reason = typeof code === "string" ? code : error instanceof Error ? error.message : String(error);
  return problem(`It could not be examined: ${reason}.`, "Try again; LOG_LEVEL=debug shows more.");
}
