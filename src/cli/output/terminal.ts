import { styleText } from "node:util";
import { wantsColor } from "../../runtime/config/environment.ts";

type Style = "bold" | "dim" | "green" | "yellow" | "red" | "cyan" | "magenta";

/** Writes a line of a command's result: stdout carries data only. */
export function printLine(line = ""): void {
  process.stdout.write(`${line}\n`);
}

/** Writes a line for the person in front of the terminal. */
export function printNotice(line = ""): void {
  process.stderr.write(`${line}\n`);
}

/** One JSON document on stdout, bigints as decimal text. */
export function printJson(value: unknown): void {
  printLine(
    JSON.stringify(
      value,
      (_key, member: unknown) => (typeof member === "bigint" ? String(member) : member),
      2,
    ),
  );
}

/** Styles text where `stream` is a terminal and NO_COLOR is not set (no-color.org). */
export function makePaint(stream: { isTTY?: boolean }) {
  const plain = stream.isTTY !== true || !wantsColor();
  return (style: Style, text: string) => (plain ? text : styleText(style, text));
}
export type Paint = ReturnType<typeof makePaint>;

/** Rows as columns, two spaces apart, the last one unpadded. */
export function alignColumns(rows: readonly (readonly string[])[]): string[] {
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
