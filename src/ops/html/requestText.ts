/** A parameter's text; empty where it is absent or given twice. NUL, which Postgres refuses, is cut out. */
export function readField(value: unknown): string {
  return typeof value === "string" ? value.replaceAll("\0", "") : "";
}
