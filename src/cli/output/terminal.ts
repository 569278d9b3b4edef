import { randomUUID } from "node:crypto";
import { Transform, type Writable } from "node:stream";
import { styleText } from "node:util";
import { CommanderError } from "commander";
import { formatInstant } from "../../domain/order/instant.ts";
import { describeAge, describeDelay } from "../../domain/duration.ts";
import { wordFor } from "../../domain/wordFor.ts";
import { ENVIRONMENT } from "../../config/environment.ts";
import { escapeControls } from "../../process/telemetry/escapeControls.ts";
import { ConfigurationError, OrderMirrorError, UnavailableError } from "../../domain/errors.ts";
import { isConnectionLost } from "../../database/databaseErrors.ts";
import { explainDatabaseError } from "../../database/explainDatabaseError.ts";
import { isFullDisk } from "../../process/dataFolder.ts";

type Style = "bold" | "dim" | "green" | "yellow" | "red" | "cyan" | "magenta";

const ESCAPE = "\u001b";
/** Text in place of ESCAPE in our own styles until they are written. Data cannot know it, so it cannot set a colour. */
const OWN_ESCAPE = randomUUID();

function escapeAround(line: string): string {
  return line
    .split(OWN_ESCAPE)
    .map((part) => escapeControls(part, { lines: true }))
    .join(ESCAPE);
}

/** A stream to stdout; on a terminal, it escapes control characters. */
export function openOutput(): Writable {
  if (!process.stdout.isTTY) return process.stdout;
  const escaping = new Transform({
    decodeStrings: false,
    transform(chunk: string | Buffer, _encoding, done) {
      done(null, escapeControls(String(chunk).replaceAll("\r\n", "\n"), { lines: true }));
    },
  });
  escaping.pipe(process.stdout, { end: false });
  return escaping;
}

/** Writes a line of a command's result. Stdout carries results only. */
export function printLine(line = ""): void {
  process.stdout.write(`${escapeAround(line)}\n`);
}

/** Writes a line for the person at the terminal. */
export function printNotice(line = ""): void {
  process.stderr.write(`${escapeAround(line)}\n`);
}

/** Writes one JSON document to stdout; bigints become decimal text. */
export function printJson(value: unknown): void {
  printLine(
    JSON.stringify(
      value,
      (_key, member: unknown) => (typeof member === "bigint" ? String(member) : member),
      2,
    ),
  );
}

/** The members of a record, with its instants as text. */
export function writeTimes(record: object): Record<string, unknown> {
  const write = (value: unknown): unknown => {
    if (typeof value === "bigint") return formatInstant(value);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? writeTimes(value) : value;
  };
  const members = Object.entries(record) as [string, unknown][];
  return Object.fromEntries(members.map(([name, value]) => [name, write(value)]));
}

/** Styles the text of one line if `stream` is a terminal and NO_COLOR is not set (no-color.org). */
export function makePaint(stream: { isTTY?: boolean }) {
  const plain = stream.isTTY !== true || (ENVIRONMENT["NO_COLOR"] ?? "") !== "";
  return (style: Style, text: string) =>
    plain
      ? escapeControls(text)
      : styleText(style, escapeControls(text), { validateStream: false }).replaceAll(ESCAPE, OWN_ESCAPE);
}
export type Paint = ReturnType<typeof makePaint>;

/**
 * Formats rows as columns two spaces apart; the last column is not padded. A cell that is not painted has no line
 * breaks.
 */
export function alignColumns(table: readonly (readonly string[])[]): string[] {
  const rows = table.map((row) =>
    row.map((cell) => cell.replace(/[\n\r\t]/g, (each) => escapeControls(each))),
  );
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, column) => (widths[column] = Math.max(widths[column] ?? 0, cell.length)));
  }
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}

export function printTable(rows: readonly (readonly string[])[]): void {
  for (const line of alignColumns(rows)) printLine(line);
}

/** `1 request`, `2 requests`. */
export function countOf(count: number, noun: string, plural?: string): string {
  return `${count} ${wordFor(count, noun, plural)}`;
}

/** A span for people, as on the pages: `41 ms`, `3.2 s`, `4 min 10 s`, `3 h 5 min`, `2 d 1 h`. */
export function formatSpan(millis: number): string {
  return describeDelay(millis / 1_000).replaceAll("\u00a0", " ");
}

/** Says how long ago something was, as on the pages: `3 min 20 s ago`. */
export function formatAge(seconds: number | null): string {
  return describeAge(seconds).replaceAll("\u00a0", " ");
}

const BAR_CELLS = 24;

interface Progress {
  /** 0 to 1. */
  readonly share: number;
  readonly elapsedMs: number;
  /** Done so far. */
  readonly orders: number;
}

/** `[######------]  50 %  600 orders  about 3 min left` */
function describeProgress({ share, elapsedMs, orders }: Progress): string {
  const filled = Math.round(share * BAR_CELLS);
  const percent = `${Math.floor(share * 100)} %`.padStart(5);
  const left = share > 0 ? `about ${formatSpan((elapsedMs * (1 - share)) / share)} left` : "";
  const bar = `[${"#".repeat(filled)}${"-".repeat(BAR_CELLS - filled)}]`;
  return [bar, percent, countOf(orders, "order"), left].join("  ").trimEnd();
}

/** Progress on stderr, in one line that is overwritten; nothing if that is no terminal. */
export function makeProgressLine(stream: { isTTY?: boolean; write: (text: string) => unknown }) {
  let open = false;
  return {
    show(progress: Progress): void {
      if (stream.isTTY !== true) return;
      stream.write(`\r\u001b[2K${describeProgress(progress)}`);
      open = true;
    },
    /** Moves the terminal to a new line. */
    end(): void {
      if (open) stream.write("\n");
      open = false;
    },
  };
}

/** Exit codes, as explained in `--help`. */
const EXIT = { ok: 0, failed: 1, usage: 2, problems: 3, later: 75 } as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** The command ran, found problems and printed them. Exit code 3. */
export class ProblemsFoundError extends OrderMirrorError {
  override readonly name = "ProblemsFoundError";
  override readonly retry = "never";
}

/** The mirror has no order of this name. Exit code 3, so that a script can tell it from a wrong call. */
export class NoSuchOrderError extends OrderMirrorError {
  override readonly name = "NoSuchOrderError";
  override readonly retry = "never";
}

/** Makes what was thrown an error that names its cause and fix, if these are known. */
export function explainFailure(thrown: unknown): unknown {
  if (thrown instanceof OrderMirrorError) return thrown;
  if (!isFullDisk(thrown)) return explainDatabaseError(thrown) ?? thrown;
  return new UnavailableError("The disk that this command writes to is full.", {
    cause: thrown,
    fix: "Free space there or name a file on another disk, then run it again.",
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
  const explained = explainFailure(thrown);
  const error = isConnectionLost(explained)
    ? new UnavailableError("A connection was lost while the command ran.", {
        cause: explained,
        fix: "Run it again; `order-mirror doctor` checks Postgres and the queue.",
      })
    : explained;
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
    const { cause } = error;
    const because = cause instanceof Error ? cause.message : JSON.stringify(cause);
    if (verbose && cause !== undefined) printNotice(`  because: ${because}`);
    return exitCodeOf(error);
  }
  printNotice(`order-mirror: ${error instanceof Error ? error.message : String(error)}`);
  if (verbose && error instanceof Error && error.stack !== undefined) printNotice(error.stack);
  else printNotice("  LOG_LEVEL=debug shows where.");
  return EXIT.failed;
}

function exitCodeOf(error: OrderMirrorError): ExitCode {
  if (error instanceof ConfigurationError) return EXIT.usage;
  if (error instanceof NoSuchOrderError) return EXIT.problems;
  return error.retry === "never" ? EXIT.failed : EXIT.later;
}
