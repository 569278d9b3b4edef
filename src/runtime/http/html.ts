/** A piece of HTML that is safe to put into a page. */
export interface Html {
  readonly markup: string;
}

type Part = Html | string | number | readonly Html[];

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Template of HTML: text put into it is escaped, for content and for quoted attributes; Html stays as it is. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  const texts = parts.map(writePart);
  return { markup: strings.map((text, index) => text + (texts[index] ?? "")).join("") };
}

function writePart(part: Part): string {
  if (typeof part === "string" || typeof part === "number") {
    return String(part).replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
  }
  return "markup" in part ? part.markup : part.map(({ markup }) => markup).join("");
}
