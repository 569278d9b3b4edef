import { readFileSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import { hideLogin } from "../../domain/hideLogin.ts";
import { describeSchemaIssue } from "../../domain/schemaIssue.ts";
import { describeReadError, readSecretFile } from "./environment.ts";

/** The elements of the JSON list in a variable's file; of an invalid one none, with a problem per mistake. */
export function readListFile<Element extends z.ZodType>(options: {
  variable: string;
  file: string;
  schema: Element;
  problems: string[];
}): z.output<Element>[] {
  const { variable, file, schema, problems } = options;
  const place = path.resolve(hideLogin(file));
  let json: unknown;
  try {
    json = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    // The message of JSON.parse quotes the file, which holds keys.
    const reason = error instanceof SyntaxError ? "is not valid JSON" : describeReadError(error);
    problems.push(`${variable} names ${place}, which ${reason}.`);
    return [];
  }
  return readList({ name: `${variable} names ${place}, which`, list: json, schema, problems });
}

/** The elements of a list; of an invalid one none, with a problem per mistake, each a sentence that begins with `name`. */
export function readList<Element extends z.ZodType>(options: {
  name: string;
  list: unknown;
  schema: Element;
  problems: string[];
}): z.output<Element>[] {
  const { name, list, schema, problems } = options;
  const result = z.array(schema).safeParse(list, { error: describeSchemaIssue });
  if (result.success) return result.data;
  for (const issue of result.error.issues) {
    const where = issue.path.length === 0 ? "" : ` at ${issue.path.join(".")}`;
    problems.push(`${name} is invalid${where}: ${issue.message}.`);
  }
  return [];
}

/** Reads the secrets that elements of a list give as file names, relative to the folder of the list. */
export function makeSecretReader(context: { folder: string; place: string; problems: string[] }) {
  const { folder, place, problems } = context;
  return (name: string, file: string | undefined): string | undefined => {
    if (file === undefined) return undefined;
    const found = readSecretFile(path.resolve(folder, file));
    if ("text" in found) return found.text;
    problems.push(`${place} ${name} names ${path.resolve(folder, hideLogin(file))}, which ${found.problem}.`);
    return undefined;
  };
}
