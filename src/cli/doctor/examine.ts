import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { problem, toRemark } from "./check.ts";
import type { Check, CheckFinding, Patient, Remark } from "./check.ts";

export interface Examination {
  readonly findings: readonly CheckFinding[];
  /** Names of checks that were left out because what they need is not there. */
  readonly skipped: readonly string[];
}

/** Longer than any server that works needs; no check can hold up the others beyond it. */
const CHECK_DEADLINE_MS = 10_000;

/**
 * Runs all checks, each with its deadline: first those of the database, then, when its schema proved to be sound,
 * those of what is in it, at once. The findings come in the order of `checks`.
 */
export async function examine(
  patient: Patient,
  checks: readonly Check[],
  deadlineMs = CHECK_DEADLINE_MS,
): Promise<Examination> {
  const runAll = (some: readonly Check[]) =>
    Promise.all(some.map((check) => runCheck(check, patient, deadlineMs)));
  const first = await runAll(checks.filter(({ needs }) => needs === "database"));
  const rest = checks.filter(({ needs }) => needs === "schema");
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
      `There was no answer within ${deadlineMs / 1_000} s.`,
      "Look whether the server hangs or a firewall swallows the connection.",
    ),
  ];
}
