/** What stands for a value in the template of the signed bytes. */
const PLACEHOLDERS = ["id", "timestamp", "url", "body"] as const;
export type Placeholder = (typeof PLACEHOLDERS)[number];

export type TemplatePart = { readonly literal: string } | { readonly placeholder: Placeholder };

/** Values that go into the signed bytes beside the body. */
interface SignedValues {
  readonly id: string;
  readonly timestamp: string;
  readonly url: string;
}

/** What is signed before and after the body. */
export interface SignedFrame {
  before(values: SignedValues): string;
  after(values: SignedValues): string;
}

const TOKEN = /\{([^{}]*)\}|([^{}]+)|([{}])/g;
/** Literals are signed byte by byte, so they may not depend on an encoding. */
const PRINTABLE_ASCII = /^[\x20-\x7e]*$/;

/**
 * Cuts a template such as `{id}.{timestamp}.{body}` into its parts, and lists what makes it unsafe: a forgotten
 * brace or a misspelt name would sign a constant, and every forged body would verify.
 */
export function parseTemplate(template: string): { parts: TemplatePart[]; problems: string[] } {
  const parts: TemplatePart[] = [];
  const problems: string[] = [];
  for (const [, name, literal, brace] of template.matchAll(TOKEN)) {
    if (brace !== undefined) problems.push(`has a stray "${brace}"`);
    else if (literal !== undefined) parts.push({ literal });
    else if (isPlaceholder(name)) parts.push({ placeholder: name });
    else
      problems.push(`has the unknown placeholder {${name ?? ""}}; known are {${PLACEHOLDERS.join("}, {")}}`);
  }
  if (!PRINTABLE_ASCII.test(template)) problems.push("may hold printable ASCII only");
  const bodies = parts.filter((part) => isBody(part)).length;
  if (bodies !== 1) problems.push(`must hold {body} exactly once, not ${bodies} times`);
  return { parts, problems };
}

export function hasPlaceholder(parts: readonly TemplatePart[], placeholder: Placeholder): boolean {
  return parts.some((part) => "placeholder" in part && part.placeholder === placeholder);
}

/** The character that ends the id in the signed bytes: an id that holds it could be cut elsewhere. Or none. */
export function findIdDelimiter(parts: readonly TemplatePart[]): string | undefined {
  const at = parts.findIndex((part) => "placeholder" in part && part.placeholder === "id");
  const next = at === -1 ? undefined : parts[at + 1];
  return next && "literal" in next ? next.literal[0] : undefined;
}

/** Ready to fill in for every request; `parts` must hold {body} exactly once. */
export function compileFrame(parts: readonly TemplatePart[]): SignedFrame {
  const at = parts.findIndex((part) => isBody(part));
  return { before: compile(parts.slice(0, at)), after: compile(parts.slice(at + 1)) };
}

function compile(parts: readonly TemplatePart[]): (values: SignedValues) => string {
  if (parts.length === 0) return () => "";
  return (values) => {
    let text = "";
    for (const part of parts) {
      if ("literal" in part) text += part.literal;
      else if (part.placeholder !== "body") text += values[part.placeholder];
    }
    return text;
  };
}

function isPlaceholder(name: string | undefined): name is Placeholder {
  return PLACEHOLDERS.some((placeholder) => placeholder === name);
}

function isBody(part: TemplatePart): boolean {
  return "placeholder" in part && part.placeholder === "body";
}
