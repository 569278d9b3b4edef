import { writeCsvTable } from "../orders/export/orderCsv.ts";
import type { CardSection, ReportCard } from "./reportCard.ts";

export const CARD_FORMATS = ["markdown", "csv", "json"] as const;
export type CardFormat = (typeof CARD_FORMATS)[number];

/** The card as text that ends with a line break. */
export const WRITE_CARD: Readonly<Record<CardFormat, (card: ReportCard) => string>> = {
  markdown: writeMarkdown,
  csv: (card) =>
    writeCsvTable([
      ["source", "month", "figure", "value", "title", "text", "meaning"],
      ...card.sections.flatMap(({ lines }) =>
        lines.map(({ name, value, title, text, meaning }) => [
          card.sourceId,
          card.month,
          name,
          value,
          title,
          text,
          meaning,
        ]),
      ),
    ]),
  json: ({ sections, sourceId, ...card }) => {
    const figures = Object.fromEntries(
      sections.flatMap(({ lines }) => lines.map(({ name, value }) => [name, value])),
    );
    return `${JSON.stringify({ source: sourceId, ...card, figures }, null, 2)}\n`;
  },
};

function writeMarkdown({ provider, month, sourceId, madeAt, remarks, sections }: ReportCard): string {
  const parts = [
    `# Report card of ${escapeText(provider)}, ${month}`,
    `As the mirror of the source ${escapeText(sourceId)} saw it; all times are UTC. Made at ${madeAt}.`,
    ...(remarks.length === 0 ? [] : [`**Not the whole month.** ${remarks.join(" ")}`]),
    ...sections.map(writeSection),
  ];
  return `${parts.join("\n\n")}\n`;
}

function writeSection({ title, lines, notes }: CardSection): string {
  const rows = lines.map(
    (line) => `| ${[line.title, line.text, line.meaning].map(escapeText).join(" | ")} |`,
  );
  const table = ["| figure | value | meaning |", "| --- | --- | --- |", ...rows].join("\n");
  return [`## ${title}`, table, ...notes].join("\n\n");
}

/** A provider names itself: no text may become a table, a link or markup. */
function escapeText(text: string): string {
  return text.replaceAll(/[\\`*_[\]<>|]/g, String.raw`\$&`).replaceAll(/\s+/g, " ");
}
