/** A parameter's text; empty if it is absent or given twice. NUL, which Postgres refuses, is removed. */
export function readField(value: unknown): string {
  return typeof value === "string" ? value.replaceAll("\0", "") : "";
}
