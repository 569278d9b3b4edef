import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { format } from "oxfmt";
import { FIGURE_HEAD, writeFigure } from "./measure.ts";
import type { Figure } from "./measure.ts";

const FILE = path.resolve(import.meta.dirname, "../../docs/performance.md");

/**
 * Replaces the figures between the marks of their sections in docs/performance.md; sections that were not measured keep
 * theirs. Throws when a section has no marks there.
 */
export async function writeFigures(figures: readonly Figure[]): Promise<void> {
  let text = await readFile(FILE, "utf8");
  for (const section of new Set(figures.map((figure) => figure.section))) {
    const [begin, end] = [`<!-- figures of ${section} -->`, `<!-- end of ${section} -->`];
    const [from, to] = [text.indexOf(begin), text.indexOf(end)];
    if (from === -1 || to < from) throw new Error(`docs/performance.md has no place for ${section}`);
    const rows = figures.filter((figure) => figure.section === section).map(writeFigure);
    const table = [FIGURE_HEAD, FIGURE_HEAD.map(() => "---"), ...rows].map(writeCells).join("\n");
    text = `${text.slice(0, from)}${begin}\n\n${table}\n\n${text.slice(to)}`;
  }
  const { code } = await format(FILE, text, { proseWrap: "preserve" });
  await writeFile(FILE, code);
}

function writeCells(cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}
