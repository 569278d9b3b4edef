import { CommanderError } from "commander";
import { ConfigurationError, OrderMirrorError, UnavailableError } from "../../domain/errors.ts";
import { explainDatabaseError } from "../../database/explainDatabaseError.ts";
import { isFullDisk } from "../../runtime/dataFolder.ts";
import { printJson, printNotice } from "../output/terminal.ts";

/** Exit codes, as explained in `--help`. */
const EXIT = { ok: 0, failed: 1, usage: 2, problems: 3, later: 75 } as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** The command ran, found problems and printed them. Exit code 3. */
export class ProblemsFoundError extends OrderMirrorError {
  override readonly name = "ProblemsFoundError";
  override readonly retry = "never";
}

/** What was thrown, as an error that names its cause and fix, if these are known. */
export function explainFailure(thrown: unknown): unknown {
  if (thrown instanceof OrderMirrorError) return thrown;
  return explainDatabaseError(thrown) ?? explainFullDisk(thrown) ?? thrown;
}

function explainFullDisk(error: unknown): OrderMirrorError | undefined {
  if (!isFullDisk(error)) return undefined;
  return new UnavailableError("The disk that this command writes to is full.", {
    cause: error,
    fix: "Free space there, then run it again.",
  });
}

/**
 * Prints what went wrong and how to fix it in one or two sentences; returns the exit code. With `json`, also prints it
 * as JSON on stdout, for programs that expect JSON.
 */
export function reportFailure(
  thrown: unknown,
  { verbose, json }: { verbose: boolean; json: boolean },
): ExitCode {
  const error = explainFailure(thrown);
  const exitCode = tell(error, verbose);
  // A command that found problems has already printed them as JSON.
  if (json && exitCode !== EXIT.ok && !(error instanceof ProblemsFoundError)) {
    const message = (error instanceof Error ? error.message : String(error)).replace(/^error: /, "");
    const fix = error instanceof OrderMirrorError ? error.fix : undefined;
    printJson({ error: { message, fix: fix ?? null, exitCode } });
  }
  return exitCode;
}

function tell(error: unknown, verbose: boolean): ExitCode {
  // Commander has already printed its message.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  if (error instanceof ProblemsFoundError) return EXIT.problems;
  if (error instanceof OrderMirrorError) {
    printNotice(`order-mirror: ${error.message}`);
    if (error.fix !== undefined) printNotice(`  fix: ${error.fix}`);
    if (verbose && error.cause !== undefined) printNotice(`  because: ${describeCause(error.cause)}`);
    return exitCodeOf(error);
  }
  printNotice(`order-mirror: ${error instanceof Error ? error.message : String(error)}`);
  if (verbose && error instanceof Error && error.stack !== undefined) printNotice(error.stack);
  else printNotice("  LOG_LEVEL=debug shows where.");
  return EXIT.failed;
}

function exitCodeOf(error: OrderMirrorError): ExitCode {
  if (error instanceof ConfigurationError) return EXIT.usage;
  return error.retry === "never" ? EXIT.failed : EXIT.later;
}

function describeCause(cause: unknown): string {
  return cause instanceof Error ? cause.message : JSON.stringify(cause);
}
