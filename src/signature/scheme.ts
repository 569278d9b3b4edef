import { z } from "zod";
import { ConfigurationError } from "../domain/errors.ts";
import { describeSchemaIssue } from "../domain/schemaIssue.ts";
import { ALGORITHM_NAMES, ENCODINGS, findAlgorithm, type Algorithm } from "./algorithms.ts";
import { hasName, parseTemplate } from "./template.ts";

export const SECRET_FORMATS = ["utf8", "base64", "hex", "whsec", "whpk"] as const;
export type SecretFormat = (typeof SECRET_FORMATS)[number];
export const TIMESTAMP_UNITS = ["s", "ms", "iso"] as const;
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
  /** Greatest distance of the time of signing from now, in either direction, inclusive. */
  toleranceSeconds: z.int().min(1).max(DAY_SECONDS).default(300),
});

/** A sender's way to sign, described as data, so that no sender needs specific code. */
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

/** Completes a scheme with the defaults of its fields. Throws ConfigurationError like loadScheme. */
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
  // Its text is not shown: it may be a secret in the wrong place.
  throw new ConfigurationError("There is no webhook scheme of that name.", {
    fix: `Name one of ${Object.keys(PRESETS).join(", ")}, or give the JSON of a scheme.`,
  });
}

/** Formats of a secret that can hold a key of that kind. */
const FORMATS: Readonly<Record<Algorithm["key"], readonly SecretFormat[]>> = {
  shared: ["utf8", "base64", "hex", "whsec"],
  ed25519: ["whpk", "hex", "base64"],
};

/** Fields that would make it verify something other than what the person who wrote them believes, and why. */
function listContradictions(scheme: Scheme): string[] {
  const { algorithm, secretFormat, header, timestamp, idHeader, separator, prefix } = scheme;
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

  const timestampHeader = timestamp && "header" in timestamp ? timestamp.header : null;
  const headers = [header, timestampHeader, idHeader].filter((name) => name !== null);
  refuse(new Set(headers).size < headers.length, "header", "is used for two things");
  const formats = FORMATS[findAlgorithm(algorithm).key];
  refuse(
    !formats.includes(secretFormat),
    "secretFormat",
    `must be one of ${formats.join(", ")} for ${algorithm}`,
  );
  return found;
}

/** Standard Webhooks, under the names of its headers that a sender uses. */
function standardWebhooks(name: string) {
  return {
    encoding: "base64",
    header: `${name}-signature`,
    prefix: "v1,",
    separator: " ",
    signed: "{id}.{timestamp}.{body}",
    timestamp: { header: `${name}-timestamp` },
    idHeader: `${name}-id`,
    secretFormat: "whsec",
  } as const;
}

const afterTime = { separator: ",", signed: "{timestamp}.{body}" } as const;

/**
 * Schemes of known senders, ready to name in WEBHOOK_SCHEME; the likeliest for the provider come first. The spec
 * does not show the provider's own scheme, so `standard-webhooks`, the strongest with a public specification, is
 * the default.
 */
export const PRESETS: Readonly<Record<string, object>> = {
  "standard-webhooks": standardWebhooks("webhook"),
  stripe: { ...afterTime, header: "stripe-signature", prefix: "v1=", timestamp: { part: "t=" } },
  "hmac-hex": { header: "x-signature" },
  github: { header: "x-hub-signature-256", prefix: "sha256=" },
  "standard-webhooks-ed25519": {
    ...standardWebhooks("webhook"),
    algorithm: "ed25519",
    prefix: "v1a,",
    secretFormat: "whpk",
  },
  svix: standardWebhooks("svix"),
  onfleet: { algorithm: "hmac-sha512", header: "x-onfleet-signature", secretFormat: "hex" },
  slack: {
    header: "x-slack-signature",
    prefix: "v0=",
    signed: "v0:{timestamp}:{body}",
    timestamp: { header: "x-slack-request-timestamp" },
  },
  shopify: { encoding: "base64", header: "x-shopify-hmac-sha256" },
  uber: { header: "x-uber-signature" },
  outpost: { header: "x-outpost-signature", prefix: "v0=", separator: "," },
  paddle: {
    header: "paddle-signature",
    prefix: "h1=",
    separator: ";",
    signed: "{timestamp}:{body}",
    timestamp: { part: "ts=" },
    toleranceSeconds: 5,
  },
  square: { encoding: "base64", header: "x-square-hmacsha256-signature", signed: "{url}{body}" },
  "courier.com": {
    ...afterTime,
    header: "courier-signature",
    prefix: "signature=",
    timestamp: { part: "t=", unit: "ms" },
  },
};
