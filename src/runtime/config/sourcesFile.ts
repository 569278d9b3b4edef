import path from "node:path";
import { z } from "zod";
import { makeSecretReader, readListFile } from "./listFile.ts";
import { trimAddress } from "./providerAddress.ts";
import { MODES } from "./sources.ts";
import type { NamedSource } from "./sources.ts";
import { list } from "./variableSchemas.ts";
import type { Values } from "./variables.ts";

const NAME_LENGTH_MAX = 64;
const secret = z.string().trim().min(1);

/** A source as SOURCES_FILE lists it. */
export const sourceSchema = z.strictObject({
  sourceId: z
    .string()
    .regex(/^[a-z0-9][a-z0-9_-]{0,62}$/, "must be 1 to 63 of a-z, 0-9, _ and -, starting with a-z or 0-9"),
  mode: z.enum(MODES),
  organization: z.string().min(1).max(NAME_LENGTH_MAX),
  baseUrl: z.string().optional(),
  apiKey: secret.optional(),
  apiKeyFile: z.string().min(1).optional(),
  webhookSecrets: z.array(secret).optional(),
  webhookSecretsFile: z.string().min(1).optional(),
  webhookScheme: z.union([z.string().min(1), z.record(z.string(), z.unknown())]).optional(),
});
type ListedSource = z.output<typeof sourceSchema>;

/** The sources in SOURCES_FILE. File names in it are relative to its folder. */
export function readFileSources(values: Values, problems: string[]): NamedSource[] {
  const file = values.SOURCES_FILE;
  if (file === null) return [];
  const listed = readListFile({ variable: "SOURCES_FILE", file, schema: sourceSchema, problems });
  return nameSources(listed, { list: "SOURCES_FILE", folder: path.dirname(file), values, problems });
}

/** Completes listed sources with the values of all; each problem names `list`. */
export function nameSources(
  listed: readonly ListedSource[],
  context: { list: string; folder: string; values: Values; problems: string[] },
): NamedSource[] {
  const { values, problems } = context;
  return listed.flatMap((source) => {
    const place = `${context.list}, source ${source.sourceId},`;
    const read = makeSecretReader({ folder: context.folder, place, problems });
    const apiKey = source.apiKey ?? read("apiKeyFile", source.apiKeyFile);
    const secretLines = read("webhookSecretsFile", source.webhookSecretsFile);
    const baseUrl = source.baseUrl ?? values.DELIVERY_BASE_URL;
    const before = problems.length;
    refuseDoubles(source, place, problems);
    if (baseUrl === null) problems.push(`${place} has no baseUrl. Add it, or set DELIVERY_BASE_URL for all.`);
    if (problems.length > before || baseUrl === null) return [];
    return {
      sourceId: source.sourceId,
      mode: source.mode,
      organization: source.organization,
      baseUrl: trimAddress(baseUrl),
      apiKey: apiKey ?? null,
      webhookSecrets: source.webhookSecrets ?? list.parse(secretLines ?? ""),
      webhookScheme: schemeText(source) ?? values.WEBHOOK_SCHEME,
      names: {
        baseUrl: `${place} baseUrl`,
        apiKey: `${place} apiKey`,
        webhookSecrets: `${place} webhookSecrets`,
        webhookScheme: `${place} webhookScheme`,
      },
    };
  });
}

function refuseDoubles(source: ListedSource, place: string, problems: string[]): void {
  for (const name of ["apiKey", "webhookSecrets"] as const) {
    if (source[name] !== undefined && source[`${name}File`] !== undefined) {
      problems.push(`${place} has both ${name} and ${name}File. Keep one of them.`);
    }
  }
}

function schemeText({ webhookScheme }: ListedSource): string | undefined {
  return typeof webhookScheme === "object" ? JSON.stringify(webhookScheme) : webhookScheme;
}
