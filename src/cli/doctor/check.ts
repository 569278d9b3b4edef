import type { OpenDatabase } from "../../roles/openDatabase.ts";
import { OrderMirrorError } from "../../domain/errors.ts";
import type { Pool } from "../../database/database.ts";
import { explainFailure } from "../output/terminal.ts";
import type { Health } from "../../health/health.ts";
import type { Holding } from "../../health/judge.ts";
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

export type Remark = Omit<CheckFinding, "check">;

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
  /** Otherwise it runs only if the tables exist and are current. */
  readonly needs?: "database";
  /** If this check finds problems, the schema cannot be relied on. */
  readonly provesSchema?: true;
  run(patient: Patient, signal: AbortSignal): Promise<readonly Remark[]>;
}

export const ok = (sentence: string): Remark => ({ level: "ok", sentence });
export const warning = (sentence: string, fix: string): Remark => ({ level: "warning", sentence, fix });
export const problem = (sentence: string, fix: string): Remark => ({ level: "problem", sentence, fix });

/** The remark for a condition that holds. */
export function remarkHolding({ condition, cause, remedy }: Holding): Remark {
  const level = condition.severity === "critical" ? "problem" : "warning";
  return { level, sentence: cause, fix: remedy, condition: condition.name };
}

/** The remark for a check that failed with an error. */
export function toRemark(thrown: unknown): Remark {
  const error = explainFailure(thrown);
  if (error instanceof OrderMirrorError) {
    return problem(error.message, error.fix ?? "Try again; LOG_LEVEL=debug shows more.");
  }
  const code = (error as { code?: unknown } | undefined)?.code;
  const reason = typeof code === "string" ? code : error instanceof Error ? error.message : String(error);
  return problem(`The check failed: ${reason}.`, "Try again; LOG_LEVEL=debug shows more.");
}

export interface Examination {
  readonly findings: readonly CheckFinding[];
  /** Names of the checks that were skipped because their prerequisites are missing. */
  readonly skipped: readonly string[];
}

/** Longer than any healthy server needs. No check can delay the others longer than this. */
const CHECK_DEADLINE_MS = 10_000;

/**
 * Runs all checks, each with its deadline: first those of the database; then, if its schema is sound, those of its
 * content, concurrently. The findings keep the order of `checks`.
 */
export async function examine(
  patient: Patient,
  checks: readonly Check[],
  deadlineMs = CHECK_DEADLINE_MS,
): Promise<Examination> {
  const runAll = (some: readonly Check[]) =>
    Promise.all(some.map((check) => runCheck(check, patient, deadlineMs)));
  const first = await runAll(checks.filter(({ needs }) => needs === "database"));
  const rest = checks.filter(({ needs }) => needs === undefined);
  const proofs = checks.filter(({ provesSchema }) => provesSchema).map(({ name }) => name);
  const schemaIsSound = !first
    .flat()
    .some(({ check, level }) => level === "problem" && proofs.includes(check));
  const found = [...first, ...(schemaIsSound ? await runAll(rest) : [])].flat();
  return {
    findings: checks.flatMap(({ name }) => found.filter(({ check }) => check === name)),
    skipped: schemaIsSound ? [] : rest.map(({ name }) => name),
  };
}

async function runCheck(check: Check, patient: Patient, deadlineMs: number): Promise<CheckFinding[]> {
  const over = new AbortController();
  const remarks = await Promise.race([
    check.run(patient, over.signal).catch((error: unknown): Remark[] => [toRemark(error)]),
    lateRemark(patient.clock, deadlineMs, over.signal),
  ]);
  over.abort();
  return remarks.map((remark) => ({ check: check.name, ...remark }));
}

async function lateRemark(clock: Clock, deadlineMs: number, signal: AbortSignal): Promise<Remark[]> {
  await clock.sleep(deadlineMs, signal).catch(() => undefined);
  return [
    problem(
      `No answer within ${deadlineMs / 1_000} s.`,
      "Check whether the server hangs or a firewall drops the connection.",
    ),
  ];
}
