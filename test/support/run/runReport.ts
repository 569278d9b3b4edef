import { writeFileSync } from "node:fs";
import path from "node:path";
import type { Reporter, TestModule } from "vitest/node";

/** What `.ci/summary` reads of one run. */
interface RunReport {
  readonly passed: number;
  readonly skipped: number;
  /** Everything that makes vitest's exit code non-zero, each with its error in one line. */
  readonly failures: readonly string[];
  readonly files: readonly { readonly file: string; readonly ms: number }[];
}

const MESSAGE_MAX = 1_000;

type Errors = Parameters<NonNullable<Reporter["onTestRunEnd"]>>[1];
type TestError = Errors[number];

/** Vitest's reporters: with the environment's TEST_REPORT, a file's name, one that writes a RunReport there. */
export function listReporters(): ("default" | Reporter)[] {
  const reportFile = process.env["TEST_REPORT"];
  return reportFile === undefined ? ["default"] : ["default", makeRunReport(reportFile)];
}

/**
 * Vitest's own JSON report leaves out errors that belong to no test, such as a rejection that nobody handled, though they
 * fail the run.
 */
function makeRunReport(reportFile: string): Reporter {
  return {
    onTestRunEnd(modules, unhandled, reason) {
      const tests = modules.flatMap((module) => [...module.children.allTests()]);
      const count = (state: string) => tests.filter((test) => test.result().state === state).length;
      const failures = [...modules.flatMap(listFailures), ...unhandled.map(describeUnhandled)];
      if (reason === "interrupted") failures.push("the run was interrupted");
      const report: RunReport = {
        passed: count("passed"),
        skipped: count("skipped"),
        failures,
        files: modules.map((module) => ({
          file: nameOf(module),
          ms: Math.round(module.diagnostic().duration),
        })),
      };
      writeFileSync(reportFile, JSON.stringify(report));
    },
  };
}

function listFailures(module: TestModule): string[] {
  const file = nameOf(module);
  const suites = [module, ...module.children.allSuites()].flatMap((suite) => {
    const at = suite.type === "module" ? "" : ` ${suite.fullName}:`;
    return suite.errors().map((error) => `${file}:${at} outside its tests: ${describe(error)}`);
  });
  const tests = [...module.children.allTests("failed")].map(
    (test) => `${file}: ${test.fullName}: ${describe(test.result().errors?.[0])}`,
  );
  const failures = [...suites, ...tests];
  const state = module.state();
  if (state === "pending" || state === "queued") failures.push(`${file}: did not finish`);
  if (state === "failed" && failures.length === 0) failures.push(`${file}: failed without an error`);
  return failures;
}

/** An error outside tests names the file that was running, and its origin. */
function describeUnhandled(error: TestError): string {
  const file = error["VITEST_TEST_PATH"];
  const running = typeof file === "string" ? path.relative(process.cwd(), file) : "no test file";
  const test = error["VITEST_TEST_NAME"];
  const during = typeof test === "string" ? `${running}: ${test}` : running;
  const frame = (error.stack ?? "").split("\n").find((line) => /^\s+at .*\/(?:src|test)\//.test(line));
  const causes = error.cause === undefined ? "" : `; ${describe(error.cause)}`;
  return `${during}: not handled: ${describe(error)}${causes}${frame === undefined ? "" : ` (${frame.trim()})`}`;
}

/** In one line, because the last lines of a message often hold the cause: what a program wrote before it ended. */
function describe(error: TestError | undefined): string {
  const text = `${error?.name ?? "Error"}: ${error?.message ?? ""}`;
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .join(" | ")
    .slice(0, MESSAGE_MAX);
}

function nameOf(module: TestModule): string {
  return `${module.project.name}: ${path.relative(process.cwd(), module.moduleId)}`;
}
