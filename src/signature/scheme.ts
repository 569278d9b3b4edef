import { z } from "zod";
import { ConfigurationError } from "../domain/errors.ts";
import { hideLogin } from "../domain/hideLogin.ts";
import { describeSchemaIssue } from "../domain/schemaIssue.ts";
import { ALGORITHM_NAMES, findAlgorithm } from "./algorithms.ts";
import type { Algorithm } from "./algorithms.ts";
import { listContradictions } from "./contradictions.ts";
import { ENCODINGS } from "./encoding.ts";
import { PRESETS } from "./presets.ts";
import { BODY_HASHES } from "./template.ts";
import { TIMESTAMP_UNITS } from "./timestamp.ts";

export const SECRET_FORMATS = ["utf8", "utf8-nfkd", "base64", "hex", "whsec", "whpk", "spki"] as const;
export type SecretFormat = (typeof SECRET_FORMATS)[number];
const DAY_SECONDS = 86_400;

const headerName = z
  .string()
  .max(64)
  .regex(/^[!#$%&'*+.^_`|~0-9a-z-]+$/i, "must be the name of a header")
  .toLowerCase();
const queryName = z.string().min(1).max(64);
const partLabel = z.union([z.string().min(1).max(32), z.int().min(1).max(9)]);
const unit = z.enum(TIMESTAMP_UNITS).default("s");

/** The key, and how far the time of signing may be from now, in either direction, inclusive. */
const common = {
  algorithm: z.enum(ALGORITHM_NAMES).default("hmac-sha256"),
  secretFormat: z.enum(SECRET_FORMATS).default("utf8"),
  toleranceSeconds: z.int().min(1).max(DAY_SECONDS).default(300),
};

/** The field that carries signature or token: a header, lower case, or a parameter of the address. */
const field = { header: headerName.nullable().default(null), query: queryName.nullable().default(null) };

const templateSchema = z.strictObject({
  form: z.literal("template").default("template"),
  ...common,
  encoding: z.enum(ENCODINGS).default("hex"),
  ...field,
  /** Literal at the start of the field: `HMAC `. */
  lead: z.string().max(32).default(""),
  /** Separates the parts of the field; `""`: the whole field is one signature. Spaces around a part are ignored. */
  separator: z.enum(["", " ", ",", ";", ":", "&", "|", "."]).default(""),
  /** Literal before a signature: `sha256=`, `v1,`. */
  prefix: z.string().max(32).default(""),
  /** Whether the prefix precedes each signature, or only the first of several. */
  prefixOn: z.enum(["each", "first"]).default("each"),
  /** The signed bytes; see `template.ts` for the names in braces. */
  signed: z.string().max(512).default("{body}"),
  timestamp: z
    .union([
      z.strictObject({ header: headerName, unit }),
      z.strictObject({ query: queryName, unit }),
      z.strictObject({ part: partLabel, unit }),
    ])
    .nullable()
    .default(null),
  /** Header that carries the event's id, lower case. */
  idHeader: headerName.nullable().default(null),
});

/** A JSON Web Token that carries a hash of the body among its claims. */
const jwtSchema = z.strictObject({
  form: z.literal("jwt"),
  ...common,
  ...field,
  /** Literal before the token: `Bearer `. */
  prefix: z.string().max(32).default(""),
  bodyClaim: z.string().min(1).max(64),
  bodyHash: z.enum(BODY_HASHES).default("sha256"),
  encoding: z.enum(ENCODINGS).default("hex"),
  /** Claim that limits the token's lifetime: when it was issued, or when it expires. Null: none, and a replay looks new. */
  timeClaim: z.enum(["iat", "exp"]).nullable().default("iat"),
});

/** HTTP Message Signatures, RFC 9421, with the body covered by Content-Digest, RFC 9530. */
const messageSchema = z.strictObject({
  form: z.literal("http-message"),
  ...common,
  /** Label of the signature that counts; null: any of them. */
  label: z.string().min(1).max(64).nullable().default(null),
  /** What the sender must sign at least. */
  components: z
    .array(z.string().regex(/^@?[a-z0-9-]+$/, "must be a header's name or a component such as @target-uri"))
    .max(16)
    .default(["content-digest"]),
});

/** No signature: the secret itself, as a bare token or as Basic authentication. It does not protect the body. */
const tokenSchema = z.strictObject({
  form: z.literal("token"),
  ...field,
  /** `Bearer `, `Basic `. */
  prefix: z.string().max(32).default(""),
  /** `base64` for Basic, whose secret is `user:password`. */
  encoding: z.enum(["text", "base64"]).default("text"),
  /** Must be true: anyone who reads one request can forge every other. */
  acceptUnsignedBodies: z.literal(
    true,
    "must be true: a token does not sign the body, so whoever reads one request can forge all others",
  ),
});

const SCHEMAS = {
  template: templateSchema,
  jwt: jwtSchema,
  "http-message": messageSchema,
  token: tokenSchema,
};

export type TemplateScheme = Readonly<z.output<typeof templateSchema>>;
export type JwtScheme = Readonly<z.output<typeof jwtSchema>>;
export type MessageScheme = Readonly<z.output<typeof messageSchema>>;
export type TokenScheme = Readonly<z.output<typeof tokenSchema>>;

/** How a sender signs, described as data, so that no sender needs specific code. */
export type Scheme = TemplateScheme | JwtScheme | MessageScheme | TokenScheme;
export type SchemeInput = Readonly<
  z.input<typeof templateSchema> | z.input<typeof jwtSchema> | z.input<typeof messageSchema>
>;

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
  const form = (fields as { form?: unknown }).form ?? "template";
  const isKnown = typeof form === "string" && Object.hasOwn(SCHEMAS, form);
  const schema = isKnown ? SCHEMAS[form as keyof typeof SCHEMAS] : undefined;
  if (!schema)
    throw new ConfigurationError(
      `The webhook scheme: form: must be one of ${Object.keys(SCHEMAS).join(", ")}`,
    );
  const result = schema.safeParse(fields, { error: describeSchemaIssue });
  const problems = result.success
    ? listContradictions(result.data)
    : result.error.issues.map((issue) => [issue.path.join("."), issue.message].filter(Boolean).join(": "));
  if (result.success && problems.length === 0) return Object.freeze(result.data);
  throw new ConfigurationError(problems.map((problem) => `The webhook scheme: ${problem}`).join("\n"));
}

export function algorithmOf(scheme: Scheme): Algorithm {
  return findAlgorithm(scheme.form === "token" ? "token" : scheme.algorithm);
}

function findPreset(name: string): SchemeInput {
  const preset = Object.hasOwn(PRESETS, name) ? PRESETS[name] : undefined;
  if (preset) return preset;
  throw new ConfigurationError(
    `There is no webhook scheme ${JSON.stringify(hideLogin(name).slice(0, 64))}.`,
    {
      fix: `Name one of ${Object.keys(PRESETS).join(", ")}, or give the JSON of a scheme.`,
    },
  );
}
