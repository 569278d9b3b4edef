/** A piece of HTML that is safe to put into a page. */
export interface Html {
  readonly markup: string;
}

type Part = Html | string | number | false | null | undefined | readonly Part[];

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/**
 * A template of HTML: text is escaped, for content and for quoted attributes; Html stays unchanged, lists are joined,
 * and null and false are empty. The template's own indentation, a sixth of a page, is left out.
 */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  const texts = parts.map(writePart);
  return {
    markup: trimLines(strings)
      .map((text, index) => text + (texts[index] ?? ""))
      .join(""),
  };
}

const TRIMMED = new WeakMap<TemplateStringsArray, string[]>();

function trimLines(strings: TemplateStringsArray): string[] {
  const trimmed = TRIMMED.get(strings) ?? strings.map((text) => text.replaceAll(/\n\s+/g, "\n"));
  TRIMMED.set(strings, trimmed);
  return trimmed;
}

function writePart(part: Part): string {
  if (part === null || part === undefined || part === false) return "";
  if (typeof part === "string" || typeof part === "number") {
    return String(part).replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
  }
  return "markup" in part ? part.markup : part.map(writePart).join("");
}
