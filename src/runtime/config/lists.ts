import { readFileSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import { hideLogin } from "../../domain/hideLogin.ts";
import { describeSchemaIssue } from "../../domain/schemaIssue.ts";
import { describeReadError, readSecretFile } from "./environment.ts";
import { list } from "./variables.ts";

/** A list of sources or of endpoints, unchecked, with what problems call it and its elements. */
export interface Listed {
  readonly name: string;
  readonly kind: "source" | "endpoint";
  readonly elements: unknown;
}

const NAME = /^[a-z0-9][a-z0-9_-]{0,62}$/;
/** Of a source or an endpoint. */
export const listName = z
  .string()
  .regex(NAME, "must be 1 to 63 of a-z, 0-9, _ and -, starting with a-z or 0-9");
/** What an element may keep in a file: `apiKeyFile` names it, relative to the folder of the list. */
const SECRETS = ["apiKey", "webhookSecrets", "secret"] as const;

/** The list in a JSON file, with the secrets that are in files of their own; without a file an empty one. */
export function readListFile(
  { file, ...listed }: Omit<Listed, "elements"> & { file: string | undefined },
  problems: string[],
): Listed {
  if (file === undefined) return { ...listed, elements: [] };
  try {
    const elements: unknown = JSON.parse(readFileSync(file, "utf8"));
    for (const [index, element] of Array.isArray(elements) ? elements.entries() : []) {
      const place = nameElement(listed, element, index);
      readSecrets(element as Record<string, unknown>, { folder: path.dirname(file), place, problems });
    }
    return { ...listed, elements };
  } catch (error) {
    // The message of JSON.parse quotes the file, which holds keys.
    const reason = error instanceof SyntaxError ? "is not valid JSON" : describeReadError(error);
    problems.push(`${listed.name} names ${path.resolve(hideLogin(file))}, which ${reason}.`);
    return { ...listed, elements: [] };
  }
}

/** Puts secrets in the place of the names of their files. */
function readSecrets(
  element: Record<string, unknown> | null,
  { folder, place, problems }: { folder: string; place: string; problems: string[] },
): void {
  for (const name of SECRETS) {
    const file = element?.[`${name}File`];
    if (!element || typeof file !== "string") continue;
    if (element[name] !== undefined)
      problems.push(`${place} has both ${name} and ${name}File. Keep one of them.`);
    const text = readSecretFile(file, { name: `${place}, ${name}File`, folder, problems });
    delete element[`${name}File`];
    if (text !== undefined) element[name] = name === "webhookSecrets" ? list.parse(text) : text;
  }
}

/** The elements of a list that match `schema`, with a problem per mistake in the others. */
export function parseList<Schema extends z.ZodType>(
  listed: Listed,
  schema: Schema,
  problems: string[],
): z.output<Schema>[] {
  const { name, elements } = listed;
  if (!Array.isArray(elements)) {
    problems.push(`${name} must be a list.`);
    return [];
  }
  return elements.flatMap((element: unknown, index) => {
    const place = nameElement(listed, element, index);
    return parseElement(element, {
      schema,
      nameOf: (field) => (field === "" ? place : `${place}, ${field}`),
      problems,
    });
  });
}

/** The parsed element in a list of one; an empty list, with a problem per mistake, if it does not match `schema`. */
export function parseElement<Schema extends z.ZodType>(
  element: unknown,
  { schema, nameOf, problems }: { schema: Schema; nameOf: (field: string) => string; problems: string[] },
): z.output<Schema>[] {
  const result = schema.safeParse(element, { error: describeSchemaIssue });
  if (result.success) return [result.data];
  for (const { path: field, message } of result.error.issues)
    problems.push(`${nameOf(field.join("."))} ${message.replace(/\.$/, "")}.`);
  return [];
}

function nameElement({ name, kind }: Omit<Listed, "elements">, element: unknown, index: number): string {
  const own = element as { sourceId?: unknown; name?: unknown } | null;
  const id = own?.sourceId ?? own?.name;
  return `${name}, ${kind} ${typeof id === "string" && NAME.test(id) ? id : `number ${index + 1}`}`;
}
