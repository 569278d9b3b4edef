import { Transform } from "node:stream";
import type { Writable } from "node:stream";
import { styleText } from "node:util";
import { wantsColor } from "../../runtime/config/processEnvironment.ts";
import { escapeControls } from "../../runtime/telemetry/escapeControls.ts";

type Style = "bold" | "dim" | "green" | "yellow" | "red" | "cyan" | "magenta";

/** The codes of our own styles, which only set colour and weight. */
const STYLE_CODE = new RegExp(`(${"\u001b"}${String.raw`\[(?:1|2|22|3[1-6]|39)m`})`);

function escapeAround(line: string): string {
  // Every second part is a style code.
  return line
    .split(STYLE_CODE)
    .map((part, place) => (place % 2 === 1 ? part : escapeControls(part, { lines: true })))
    .join("");
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

/** Styles the text of one line if `stream` is a terminal and NO_COLOR is not set (no-color.org). */
export function makePaint(stream: { isTTY?: boolean }) {
  const plain = stream.isTTY !== true || !wantsColor();
  return (style: Style, text: string) =>
    plain ? escapeControls(text) : styleText(style, escapeControls(text));
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

/** A span for people: `41 ms`, `3.2 s`, `22 s`, `4 min`, `3 h`, `2 days`. */
export function formatSpan(millis: number): string {
  const seconds = millis / 1_000;
  if (millis < 1_000) return `${Math.round(millis)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}
