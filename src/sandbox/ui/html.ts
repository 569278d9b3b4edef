/** Text that is HTML already. Everything else is escaped by `html`. */
export interface Html {
  readonly html: string;
}

type Part = Html | string | number | null | undefined | readonly Part[];

/** HTML from a template; what is put in is escaped unless it came from here, lists are joined, null is nothing. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  const text = strings.reduce((made, string, index) => made + write(parts[index - 1]) + string);
  return { html: text };
}

function write(part: Part): string {
  if (part === null || part === undefined) return "";
  if (Array.isArray(part)) return (part as readonly Part[]).map(write).join("");
  if (typeof part === "object") return (part as Html).html;
  return escape(String(part));
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escape(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
}
