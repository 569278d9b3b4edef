/** A problem found by a schema, as zod reports it. */
interface SchemaIssue {
  readonly code?: string | undefined;
  readonly expected?: unknown;
  readonly input?: unknown;
  readonly keys?: readonly string[];
  readonly values?: readonly unknown[];
  readonly minimum?: unknown;
  readonly maximum?: unknown;
}

const KINDS: Readonly<Record<string, string>> = {
  string: "text",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
};

/**
 * Words a problem for people who know JSON but no schema library: "is missing", "must be text". Used as zod's `error`
 * for schemas without their own message. Reveals nothing of the value except names of fields.
 */
export function describeSchemaIssue(issue: SchemaIssue): string {
  if (issue.input === undefined && issue.code !== "unrecognized_keys") return "is missing";
  const text = typeof issue.input === "string";
  switch (issue.code) {
    case "invalid_type":
      return `must be ${KINDS[String(issue.expected)] ?? String(issue.expected)}`;
    case "invalid_value":
      return `must be ${(issue.values ?? []).map((value) => JSON.stringify(value)).join(" or ")}`;
    case "unrecognized_keys":
      return `has unknown fields: ${(issue.keys ?? []).map((key) => JSON.stringify(key)).join(", ")}`;
    case "too_small":
      if (text)
        return Number(issue.minimum) === 1
          ? "is empty"
          : `must have at least ${String(issue.minimum)} characters`;
      return `must be at least ${String(issue.minimum)}`;
    case "too_big":
      return text
        ? `must have at most ${String(issue.maximum)} characters`
        : `must be at most ${String(issue.maximum)}`;
    case undefined:
    default:
      return "has an unknown format";
  }
}
