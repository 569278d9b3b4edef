/** How much of the fault matrix is run, set by test/faults/main.ts. The short form leaves *.long.test.ts out. */
export const isShort = process.env["FAULTS_EXTENT"] === "short";

/** Replays a run: printed at its start, given by `--seed`. */
export const seed = Number(process.env["FAULTS_SEED"] ?? 1);

/** How long the random faults last. */
export const randomSeconds = Number(process.env["FAULTS_SECONDS"] ?? (isShort ? 15 : 45));

/** What a test of the matrix counted, on stderr for people and for docs/reliability.md. */
export function noteFigures(rows: string, figures: Readonly<Record<string, number | string>>): void {
  const counted = Object.entries(figures).map(([name, count]) => `${name} ${count}`);
  process.stderr.write(`FIGURES rows ${rows}: ${counted.join(", ")}\n`);
}
