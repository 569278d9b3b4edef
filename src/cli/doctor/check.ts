import type { OpenDatabase } from "../../roles/openDatabase.ts";
import { OrderMirrorError } from "../../domain/errors.ts";
import type { Pool } from "../../database/database.ts";
import { explainFailure } from "../output/terminal.ts";
import type { Health } from "../../health/health.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import type { Config } from "../../runtime/config/config.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";

export type Level = "ok" | "warning" | "problem";

/** The result of a check: one sentence, and a fix unless all is well. Neither contains a secret. */
export interface CheckFinding {
  readonly check: string;
  readonly level: Level;
  readonly sentence: string;
  readonly fix?: string;
  /** The name of the condition, if the finding reports one. */
  readonly condition?: string;
}

/** A finding of a check, under its name unless another is given. */
export type Remark = Omit<CheckFinding, "check"> & Partial<Pick<CheckFinding, "check">>;

/** What the checks examine. */
export interface Patient {
  readonly config: Config;
  readonly database: OpenDatabase;
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The web process's public address as the provider knows it; null: use HOST and PORT of this machine. */
  readonly publicUrl: string | null;
  /** The state of every source and the conditions that hold, read once for all checks. */
  readonly health: () => Promise<Health>;
}

/** One check. A check never changes anything visible. */
export interface Check {
  readonly name: string;
  run(patient: Patient, signal: AbortSignal): Promise<readonly Remark[]>;
}

export const ok = (sentence: string): Remark => ({ level: "ok", sentence });
export const warning = (sentence: string, fix: string): Remark => ({ level: "warning", sentence, fix });
export const problem = (sentence: string, fix: string): Remark => ({ level: "problem", sentence, fix });

/** The remark for a check that failed with an error. */
export function toRemark(thrown: unknown): Remark {
  const error = explainFailure(thrown);
  const again = "Try again; LOG_LEVEL=debug shows more.";
  if (error instanceof OrderMirrorError) return problem(error.message, error.fix ?? again);
  const code = (error as { code?: unknown } | undefined)?.code;
  const reason = typeof code === "string" ? code : error instanceof Error ? error.message : String(error);
  return problem(`The check failed: ${reason}.`, again);
}

/** Longer than any healthy server needs. No check can delay the others longer than this. */
const CHECK_DEADLINE_MS = 10_000;

/** Runs checks concurrently, each with its deadline. The findings keep the order of `checks`. */
export async function examine(
  patient: Patient,
  checks: readonly Check[],
  deadlineMs = CHECK_DEADLINE_MS,
): Promise<CheckFinding[]> {
  const findings = checks.map(async (check) => {
    const over = new AbortController();
    const remarks = await Promise.race([
      check.run(patient, over.signal).catch((error: unknown): Remark[] => [toRemark(error)]),
      lateRemark(patient.clock, deadlineMs, over.signal),
    ]);
    over.abort();
    return remarks.map((remark) => ({ check: check.name, ...remark }));
  });
  return (await Promise.all(findings)).flat();
}

async function lateRemark(clock: Clock, deadlineMs: number, signal: AbortSignal): Promise<Remark[]> {
  await clock.sleep(deadlineMs, signal).catch(() => undefined);
  const fix = "Check whether the server hangs or a firewall drops the connection.";
  return [problem(`No answer within ${deadlineMs / 1_000} s.`, fix)];
}
