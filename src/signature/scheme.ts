import { z } from "zod";
import { ConfigurationError } from "../domain/errors.ts";
import { hideLogin } from "../domain/hideLogin.ts";
import { describeSchemaIssue } from "../domain/schemaIssue.ts";
import { ALGORITHM_NAMES, ENCODINGS, findAlgorithm } from "./algorithms.ts";
import { PRESETS } from "./presets.ts";
import { hasName, parseTemplate } from "./template.ts";

export const SECRET_FORMATS = ["utf8", "utf8-nfkd", "base64", "hex", "whsec", "whpk", "spki"] as const;
export type SecretFormat = (typeof SECRET_FORMATS)[number];
export const TIMESTAMP_UNITS = ["s", "ms", "iso", "http"] as const;
export type TimestampUnit = (typeof TIMESTAMP_UNITS)[number];
const DAY_SECONDS = 86_400;

const headerName = z
  .string()
  .max(64)
  .regex(/^[!#$%&'*+.^_`|~0-9a-z-]+$/i, "must be the name of a header")
  .toLowerCase();
const unit = z.enum(TIMESTAMP_UNITS).default("s");

const schemeSchema = z.strictObject({
  algorithm: z.enum(ALGORITHM_NAMES).default("hmac-sha256"),
  secretFormat: z.enum(SECRET_FORMATS).default("utf8"),
  encoding: z.enum(ENCODINGS).default("hex"),
  /** The header that carries the signature, lower case. */
  header: headerName,
  /** Literal at the start of the header: `HMAC `. */
  lead: z.string().max(32).default(""),
  /** Separates the parts of the header; `""`: the whole header is one signature. Spaces around a part are ignored. */
  separator: z.enum(["", " ", ",", ";", ":", "&", "|", "."]).default(""),
  /** Literal before a signature: `sha256=`, `v1,`. */
  prefix: z.string().max(32).default(""),
  /** Whether the prefix precedes each signature, or only the first of several. */
  prefixOn: z.enum(["each", "first"]).default("each"),
  /** The signed bytes; see `template.ts` for the names in braces. */
  signed: z.string().max(512).default("{body}"),
  /** A header, or the text at the start of a part of the signature's own header. */
  timestamp: z
    .union([
      z.strictObject({ header: headerName, unit }),
      z.strictObject({ part: z.string().min(1).max(32), unit }),
    ])
    .nullable()
    .default(null),
  /** Header that carries the event's id, lower case. */
  idHeader: headerName.nullable().default(null),
  /** How far the time of signing may be from now, in either direction, inclusive. */
  toleranceSeconds: z.int().min(1).max(DAY_SECONDS).default(300),
});

/** How a sender signs, described as data, so that no sender needs specific code. */
export type Scheme = Readonly<z.output<typeof schemeSchema>>;

/** A preset by its name, or a scheme from its JSON. Throws ConfigurationError, a line per problem. */
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

/** The scheme with all its fields. Throws ConfigurationError like loadScheme. */
export function parseScheme(fields: unknown): Scheme {
  const result = schemeSchema.safeParse(fields, { error: describeSchemaIssue });
  const problems = result.success
    ? listContradictions(result.data)
    : result.error.issues.map((issue) => [issue.path.join("."), issue.message].filter(Boolean).join(": "));
  if (result.success && problems.length === 0) return Object.freeze(result.data);
  throw new ConfigurationError(problems.map((problem) => `The webhook scheme: ${problem}`).join("\n"));
}

function findPreset(name: string): object {
  const preset = Object.hasOwn(PRESETS, name) ? PRESETS[name] : undefined;
  if (preset) return preset;
  throw new ConfigurationError(
    `There is no webhook scheme ${JSON.stringify(hideLogin(name).slice(0, 64))}.`,
    { fix: `Name one of ${Object.keys(PRESETS).join(", ")}, or give the JSON of a scheme.` },
  );
}

/** Formats of a secret that can hold a key of that kind. */
const FORMATS: Readonly<Record<string, readonly SecretFormat[]>> = {
  shared: ["utf8", "utf8-nfkd", "base64", "hex", "whsec"],
  ed25519: ["whpk", "hex", "base64", "spki"],
  "P-256": ["spki"],
  "P-384": ["spki"],
  rsa: ["spki"],
};

/** Fields that would make it verify something other than what the person who wrote them believes, and why. */
function listContradictions(scheme: Scheme): string[] {
  const { algorithm, secretFormat, header, timestamp, idHeader, separator, prefix, prefixOn } = scheme;
  const { parts, problems } = parseTemplate(scheme.signed);
  const found = problems.map((problem) => `signed: ${problem}`);
  const refuse = (when: boolean, field: string, problem: string) => {
    if (when) found.push(`${field}: ${problem}`);
  };
  const signsTimestamp = hasName(parts, "timestamp");
  const signsId = hasName(parts, "id");
  refuse(signsTimestamp && !timestamp, "signed", "holds {timestamp}, but timestamp names no source for it");
  refuse(signsId && !idHeader, "signed", "holds {id}, but idHeader names no source for it");
  // A timestamp or an id that is not signed can be replaced by anyone and proves nothing.
  refuse(!signsTimestamp && timestamp !== null, "timestamp", "is given, but {timestamp} is not signed");
  refuse(!signsId && idHeader !== null, "idHeader", "is given, but {id} is not signed");

  const label = timestamp && "part" in timestamp ? timestamp.part : undefined;
  refuse(
    label !== undefined && separator === "",
    "timestamp",
    "takes a part of the header, but separator is empty",
  );
  refuse(
    label !== undefined && prefix !== "" && (label.startsWith(prefix) || prefix.startsWith(label)),
    "timestamp",
    "has a part that cannot be distinguished from the prefix of a signature",
  );
  refuse(separator !== "" && prefix.includes(separator), "prefix", "holds the separator");
  refuse(
    prefixOn === "first" && (separator === "" || prefix === ""),
    "prefixOn",
    'is "first", which needs a prefix and a separator',
  );

  const timestampHeader = timestamp && "header" in timestamp ? timestamp.header : null;
  const headers = [header, timestampHeader, idHeader].filter((name) => name !== null);
  refuse(new Set(headers).size < headers.length, "header", "is used for two things");
  const signsItself = parts.some((part) => "header" in part && part.header === header);
  refuse(signsItself, "signed", "holds the header that carries the signature");
  const formats = FORMATS[findAlgorithm(algorithm).key] ?? [];
  refuse(
    !formats.includes(secretFormat),
    "secretFormat",
    `must be one of ${formats.join(", ")} for ${algorithm}`,
  );
  return found;
}
