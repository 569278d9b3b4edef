import { z } from "zod";
import { ConfigurationError } from "../domain/errors.ts";
import { describeSchemaIssue } from "../domain/schemaIssue.ts";
import { ENCODINGS } from "./encoding.ts";
import { PRESETS } from "./presets.ts";
import { hasPlaceholder, parseTemplate } from "./template.ts";

const ALGORITHMS = ["hmac-sha256", "hmac-sha512", "hmac-sha1", "ed25519"] as const;
const SECRET_FORMATS = ["utf8", "base64", "hex", "whsec", "whpk"] as const;
const TIMESTAMP_UNITS = ["s", "ms", "iso"] as const;
const DAY_SECONDS = 86_400;

const headerName = z
  .string()
  .max(64)
  .regex(/^[!#$%&'*+.^_`|~0-9a-z-]+$/i, "must be the name of a header")
  .toLowerCase();
const unit = z.enum(TIMESTAMP_UNITS).default("s");

const schemeSchema = z
  .strictObject({
    algorithm: z.enum(ALGORITHMS).default("hmac-sha256"),
    encoding: z.enum(ENCODINGS).default("hex"),
    /** Header that carries the signature, lower case. */
    header: headerName,
    /** Literal before each signature: `sha256=`, `v1,`. */
    prefix: z.string().max(32).default(""),
    /** Between several signatures in the header; `""`: the whole header is one signature. */
    separator: z.enum(["", " ", ",", ";"]).default(""),
    /** The signed bytes, over {id}, {timestamp}, {url} and {body}. */
    signed: z.string().max(256).default("{body}"),
    /** Where the time of signing stands: in a header of its own, or in a part of the signature's header. */
    timestamp: z
      .union([
        z.strictObject({ header: headerName, unit }),
        z.strictObject({ part: z.string().min(1).max(16), unit }),
      ])
      .nullable()
      .default(null),
    /** Header that carries the event's id, lower case. */
    idHeader: headerName.nullable().default(null),
    secretFormat: z.enum(SECRET_FORMATS).default("utf8"),
    /** How far the time of signing may lie from now, to both sides, inclusive. */
    toleranceSeconds: z.int().min(1).max(DAY_SECONDS).default(300),
  })
  .superRefine((scheme, context) => {
    for (const { field, problem } of listContradictions(scheme)) {
      context.addIssue({ code: "custom", path: [field], message: problem });
    }
  });

/** How a sender signs: a description as data, so that no sender needs code of its own. */
export type Scheme = Readonly<z.output<typeof schemeSchema>>;
export type SchemeInput = Readonly<z.input<typeof schemeSchema>>;

/**
 * The scheme that `text` names (a preset) or describes (JSON of a scheme's fields).
 * Throws ConfigurationError, with one line per problem, for anything that cannot be verified safely.
 */
export function loadScheme(text: string): Scheme {
  const trimmed = text.trim();
  if (!trimmed.startsWith("{")) return parseScheme(findPreset(trimmed));
  let fields: unknown;
  try {
    fields = JSON.parse(trimmed);
  } catch (error) {
    throw new ConfigurationError("The webhook scheme starts like JSON but is none.", {
      cause: error,
      fix: 'Check quotes and commas, or name a preset such as "standard-webhooks".',
    });
  }
  return parseScheme(fields);
}

function findPreset(name: string): SchemeInput {
  const preset = Object.hasOwn(PRESETS, name) ? PRESETS[name] : undefined;
  if (preset) return preset;
  throw new ConfigurationError(`There is no webhook scheme ${JSON.stringify(name.slice(0, 64))}.`, {
    fix: `Name one of ${Object.keys(PRESETS).join(", ")}, or give the JSON of a scheme.`,
  });
}

function parseScheme(fields: unknown): Scheme {
  const result = schemeSchema.safeParse(fields, { error: describeSchemaIssue });
  if (result.success) return Object.freeze(result.data);
  const lines = result.error.issues.map((issue) =>
    ["The webhook scheme", issue.path.join("."), issue.message].filter(Boolean).join(": "),
  );
  throw new ConfigurationError(lines.join("\n"));
}

interface Contradiction {
  readonly field: keyof z.output<typeof schemeSchema>;
  readonly problem: string;
}

/** Combinations that would verify something other than what the person who wrote them believes. */
function listContradictions(scheme: z.output<typeof schemeSchema>): Contradiction[] {
  const { timestamp, idHeader, separator, prefix } = scheme;
  const found: Contradiction[] = [];
  const refuse = (when: boolean, field: Contradiction["field"], problem: string) => {
    if (when) found.push({ field, problem });
  };
  const template = parseTemplate(scheme.signed);
  for (const problem of template.problems) refuse(true, "signed", problem);
  const signsTimestamp = hasPlaceholder(template.parts, "timestamp");
  const signsId = hasPlaceholder(template.parts, "id");
  refuse(signsTimestamp && !timestamp, "signed", "holds {timestamp}, but timestamp names no source for it");
  refuse(signsId && !idHeader, "signed", "holds {id}, but idHeader names no source for it");
  // A timestamp or an id that is not signed can be replaced by anyone and proves nothing.
  refuse(!signsTimestamp && timestamp !== null, "timestamp", "is given, but {timestamp} is not signed");
  refuse(!signsId && idHeader !== null, "idHeader", "is given, but {id} is not signed");

  const part = timestamp && "part" in timestamp ? timestamp.part : undefined;
  refuse(
    part !== undefined && separator === "",
    "timestamp",
    "is a part of the header, but separator is empty",
  );
  const ambiguous =
    part !== undefined && prefix !== "" && (part.startsWith(prefix) || prefix.startsWith(part));
  refuse(ambiguous, "timestamp", "has a part that cannot be distinguished from the prefix of a signature");
  refuse(separator !== "" && prefix.includes(separator), "prefix", "holds the separator");

  const timestampHeader = timestamp && "header" in timestamp ? timestamp.header : null;
  const headers = [scheme.header, timestampHeader, idHeader].filter((name) => name !== null);
  refuse(new Set(headers).size < headers.length, "header", "is used for two things");
  const isEd25519 = scheme.algorithm === "ed25519";
  refuse(
    isEd25519 !== (scheme.secretFormat === "whpk"),
    "secretFormat",
    'is "whpk" for ed25519, and only then',
  );
  return found;
}
