import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { problem, toRemark } from "./check.ts";
import type { Check, CheckFinding, Patient, Remark } from "./check.ts";

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
