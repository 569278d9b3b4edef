import type { OpenDatabase } from "../../roles/start/openDatabase.ts";
import { OrderMirrorError } from "../../domain/errors.ts";
import type { Pool } from "../../database/database.ts";
import { explainDatabaseError } from "../../database/explainDatabaseError.ts";
import type { Health } from "../../health/health.ts";
import type { Holding } from "../../health/judge.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import type { Config } from "../../runtime/config/config.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";

export type Level = "ok" | "warning" | "problem";

/** What a check found: one sentence, and what to do about it unless all is well. Neither holds a secret. */
export interface CheckFinding {
  readonly check: string;
  readonly level: Level;
  readonly sentence: string;
  readonly fix?: string;
  /** Name of the condition that holds, where the finding is one. */
  readonly condition?: string;
}

export type Remark = Omit<CheckFinding, "check">;

/** What the checks look at. */
export interface Patient {
  readonly config: Config;
  readonly database: OpenDatabase;
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Public address of the web process as the provider has it; null: look at HOST and PORT here. */
  readonly publicUrl: string | null;
  /** Where every source stands and which conditions hold, read once for all checks. */
  readonly health: () => Promise<Health>;
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

/** A condition that holds, as a remark. */
export function remarkHolding({ condition, cause, remedy }: Holding): Remark {
  const level = condition.severity === "critical" ? "problem" : "warning";
  return { level, sentence: cause, fix: remedy, condition: condition.name };
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
