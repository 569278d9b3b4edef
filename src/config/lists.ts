import { z } from "zod";
import { describeSchemaIssue } from "../domain/schemaIssue.ts";

/** A list of sources or of endpoints, unchecked, with what problems call it and its elements. */
export interface Listed {
  readonly name: string;
  readonly kind: "source" | "endpoint";
  readonly elements: unknown;
}

const NAME = /^[a-z0-9][a-z0-9_-]{0,62}$/;
/** The name of a source or an endpoint. */
export const listName = z
  .string()
  .regex(NAME, "must be 1 to 63 of a-z, 0-9, _ and -, starting with a-z or 0-9");

/** The elements of a list that match `schema`, with a problem per mistake in the others. */
export function parseList<Schema extends z.ZodType>(
  { name, kind, elements }: Listed,
  schema: Schema,
  problems: string[],
): z.output<Schema>[] {
  if (!Array.isArray(elements)) {
    problems.push(`${name} must be a list.`);
    return [];
  }
  return elements.flatMap((element: unknown, index) => {
    const own = element as { sourceId?: unknown; name?: unknown } | null;
    const id = own?.sourceId ?? own?.name;
    const place = `${name}, ${kind} ${typeof id === "string" && NAME.test(id) ? id : `number ${index + 1}`}`;
    const nameOf = (field: string) => (field === "" ? place : `${place}, ${field}`);
    return parseElement(element, { schema, nameOf, problems });
  });
}

/** The parsed element in a list of one; an empty list, with a problem per mistake, if it does not match `schema`. */
export function parseElement<Schema extends z.ZodType>(
  element: unknown,
  context: { schema: Schema; nameOf: (field: string) => string; problems: string[] },
): z.output<Schema>[] {
  const { schema, nameOf, problems } = context;
  const result = schema.safeParse(element, { error: describeSchemaIssue });
  if (result.success) return [result.data];
  for (const { path: field, message } of result.error.issues)
    problems.push(`${nameOf(field.join("."))} ${message.replace(/\.$/, "")}.`);
  return [];
}
