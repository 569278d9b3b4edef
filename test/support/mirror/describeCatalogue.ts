import type { CatalogueEntry } from "./catalogue.ts";

const BEGIN = "<!-- prettier-ignore-start -->";
const END = "<!-- prettier-ignore-end -->";

/** The schema `reporting` as Markdown: a heading and a table of columns for each view and function. */
function describeCatalogue(entries: readonly CatalogueEntry[]): string {
  return entries.map(describeEntry).join("\n\n");
}

/**
 * `document`, with the text between its two marks replaced by the description of `entries`.
 * Throws TypeError when the marks are missing.
 */
export function renewDescription(document: string, entries: readonly CatalogueEntry[]): string {
  const begin = document.indexOf(BEGIN);
  const end = document.indexOf(END);
  if (begin === -1 || end < begin) throw new TypeError("the document lacks the marks of the description");
  return `${document.slice(0, begin)}${BEGIN}\n\n${describeCatalogue(entries)}\n\n${document.slice(end)}`;
}

function describeEntry({ name, kind, comment, columns }: CatalogueEntry): string {
  const heading = `### \`reporting.${name}\`\n\n${comment ?? ""}`;
  // The columns of a function are those of the view that it is named after, and have no separate comments.
  if (kind === "function") {
    if (columns.length === 0) return heading;
    return `${heading}\n\nColumns: ${columns.map((column) => `\`${column.name}\``).join(", ")}.`;
  }
  const rows = columns.map(
    (column) => `| \`${column.name}\` | ${shortType(column.type)} | ${escapeCell(column.comment ?? "")} |`,
  );
  return [heading, "", "| column | type | meaning |", "|---|---|---|", ...rows].join("\n");
}

function shortType(type: string): string {
  return type === "timestamp with time zone" ? "timestamptz" : type;
}

function escapeCell(text: string): string {
  return text.replaceAll("|", "\\|");
}
