import { isIP } from "node:net";
import { z } from "zod";
import { parseDuration, resolveSince } from "./duration.ts";
import { holdsLogin, isUnprotected } from "./providerAddress.ts";
import { findPathProblem } from "../http/forwardedPaths.ts";

/** One environment variable of the product. */
export interface Variable {
  /** Parses the text, trimmed and not empty. Messages are worded to follow "NAME …". */
  readonly schema: z.ZodType<unknown, string>;
  readonly default?: string;
  /** True if its value must not be shown; NAME_FILE can then supply it. */
  readonly secret?: true;
  /** What applies if it is not set and has no default. */
  readonly unset?: string;
  readonly meaning: string;
}

/** The parsed values of variables; null if not set and without a default. */
export type ValuesOf<Variables extends Readonly<Record<string, Variable>>> = {
  readonly [Name in keyof Variables]:
    | z.output<Variables[Name]["schema"]>
    | (Variables[Name] extends { readonly default: string } ? never : null);
};

// Schemas of the variables' texts. Messages are worded to follow "NAME …" and do not quote the text.

export const HOUR_SECONDS = 3_600;
export const DAY_SECONDS = 86_400;
const TOKEN_LENGTH_MIN = 16;
const PASSWORD_LENGTH_MIN = 12;
const POSTGRES_PROTOCOLS = ["postgres:", "postgresql:"];
const REDIS_PROTOCOLS = ["redis:", "rediss:"];
/** The characters of a bearer token (RFC 6750, section 2.1). */
const TOKEN = /^[A-Za-z0-9._~+/=-]+$/;
const HOST_NAME = /^(?!-)[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})*$/;

export const text = z.string();
export const folder = text.refine(
  (value) => !value.startsWith("~"),
  "must not start with ~, which only a shell replaces; write the whole path, or ./~ for a folder of that name",
);
export const oneOf = <const Words extends readonly [string, ...string[]]>(words: Words) =>
  z.enum(words, `must be one of ${words.join(", ")}`);

export function wholeNumberVariable(min: number, max: number) {
  const message = `must be a whole number from ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d{1,10}$/, message)
    .transform(Number)
    .refine((value) => value >= min && value <= max, message);
}

export function seconds(min: number, max: number) {
  const message = `must be a number of seconds from ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d{1,6}(\.\d{1,3})?$/, message)
    .transform(Number)
    .refine((value) => value >= min && value <= max, message);
}

/** A key in PEM, with its line breaks, or whatever stands between commas and lines. */
const LIST_ENTRY = /-----BEGIN [^-]+-----[^-]+-----END [^-]+-----|[^,\n]+/g;

/** Values separated by commas or lines: files with secrets often have one per line. */
export const list = z.string().transform((value) => {
  const entries = value.match(LIST_ENTRY) ?? [];
  return entries.map((entry) => entry.trim()).filter((entry) => entry !== "");
});

const isUrl = (value: string, protocols: readonly string[]) =>
  URL.canParse(value) && protocols.includes(new URL(value).protocol);

/** A password with one of / ? # ends the address early: the driver would name its beginning in errors. */
const endsEarly = (value: string) => /^[^:]+:\/\/[^/?#]*[/?#].*@/s.test(value);

export const databaseUrl = text
  .refine(
    (value) => isUrl(value, POSTGRES_PROTOCOLS) && !endsEarly(value),
    "must look like postgres://user:password@host:5432/database; in a password, write @ as %40, : as %3A, / as %2F, # as %23 and % as %25",
  )
  .transform(nameVerification);

/** TLS modes that the driver treats as verify-full, with a warning of eight lines each time. */
const TAKEN_FOR_VERIFY_FULL = ["prefer", "require", "verify-ca"];

/** The address with the TLS mode in force: every encrypted one verifies, unless `uselibpqcompat` is set. */
function nameVerification(value: string): string {
  const url = new URL(value);
  const mode = url.searchParams.get("sslmode");
  if (mode === null || !TAKEN_FOR_VERIFY_FULL.includes(mode) || url.searchParams.has("uselibpqcompat"))
    return value;
  url.searchParams.set("sslmode", "verify-full");
  return url.href;
}

export const redisUrls = list.superRefine((urls, context) => {
  const message = findRedisProblem(urls);
  if (message !== undefined) context.addIssue({ code: "custom", message });
});

function findRedisProblem(urls: readonly string[]): string | undefined {
  if (
    urls.length === 0 ||
    !urls.every((url) => isUrl(url, REDIS_PROTOCOLS) && !endsEarly(url) && new URL(url).hostname !== "")
  ) {
    return "must look like redis://host:6379 or rediss://host:6379; for a cluster, comma separated";
  }
  const [{ protocol }, ...others] = urls.map((url) => new URL(url)) as [URL, ...URL[]];
  if (others.some((other) => other.protocol !== protocol)) {
    return "mixes redis:// and rediss://; use the same scheme for all addresses";
  }
  if (others.length > 0 && urls.some((url) => !["", "/", "/0"].includes(new URL(url).pathname))) {
    return "names a database number, but a cluster has only database 0; remove it";
  }
  return undefined;
}

const MAY_WRITE = "+write";

/** `TOKEN` is for the source `live`, `TOKEN@SOURCE` for that source; `TOKEN@SOURCE+write` also has write access. */
export const tokens = list
  .transform((entries) =>
    entries.map((entry) => {
      const at = entry.lastIndexOf("@");
      if (at === -1) return { token: entry, sourceId: "live", mayWrite: false };
      const right = entry.slice(at + 1);
      const mayWrite = right.endsWith(MAY_WRITE);
      const sourceId = mayWrite ? right.slice(0, -MAY_WRITE.length) : right;
      return { token: entry.slice(0, at), sourceId, mayWrite };
    }),
  )
  .superRefine((entries, context) => {
    for (const [index, { token }] of entries.entries()) {
      if (token.length >= TOKEN_LENGTH_MIN && TOKEN.test(token)) continue;
      const rule = `has a token (number ${index + 1}) that is not at least ${TOKEN_LENGTH_MIN} letters, digits or . _ ~ + / = -`;
      context.addIssue({ code: "custom", message: `${rule}; create one with: openssl rand -hex 24` });
    }
  });

export const webAddress = text.refine(
  (value) => isUrl(value, ["http:", "https:"]),
  "must be an address that starts with https:// or http://",
);

/** Whether it is an address that may be shown, and to which a request without a login is sent. */
const isPublicAddress = (value: string) => isUrl(value, ["http:", "https:"]) && !holdsLogin(new URL(value));

export const alertAddress = text.refine(
  (value) => isPublicAddress(value) && !isUnprotected(new URL(value)),
  "must be an address that starts with https:// (only this machine may use http://), without a user and password",
);

/** A path is the prefix that a proxy removes from the addresses of webhooks. */
export const webAddresses = list.refine(
  (values) => values.length > 0 && values.every((value) => isPublicAddress(value) && !/[?#]/.test(value)),
  "must be addresses that start with https:// or http://, without a user and password, a query or a fragment, comma separated",
);

export const forwardedPaths = list.superRefine((patterns, context) => {
  for (const pattern of patterns) {
    const problem = findPathProblem(pattern);
    if (problem !== undefined) context.addIssue({ code: "custom", message: problem });
  }
});

export const password = text.refine(
  (value) => value.length >= PASSWORD_LENGTH_MIN,
  `must have at least ${PASSWORD_LENGTH_MIN} characters; create one with: openssl rand -hex 12`,
);

export const metricsToken = text.refine(
  (value) => value.length >= TOKEN_LENGTH_MIN && TOKEN.test(value),
  `must be at least ${TOKEN_LENGTH_MIN} letters, digits or . _ ~ + / = -; create one with: openssl rand -hex 24`,
);

export const backfillSince = text.refine((value) => {
  try {
    return resolveSince(value, 0n) >= 0n;
  } catch {
    return false;
  }
}, "must be an ISO 8601 duration such as P30D, or an instant such as 2026-01-31T00:00:00Z");

/** Long enough for everything that looks back: repairs, nightly comparisons, readers that were disconnected. */
const KEPT_DAYS_MIN = 7;
const DAY_NANOS = 86_400_000_000_000n;

export const keptFor = text.refine((value) => {
  const now = 100_000n * DAY_NANOS;
  const isDuration = parseDuration(value) !== undefined;
  return isDuration && resolveSince(value, now) <= now - BigInt(KEPT_DAYS_MIN) * DAY_NANOS;
}, `must be an ISO 8601 duration of at least ${KEPT_DAYS_MIN} days, such as P90D`);

export const host = text.refine(
  (value) => isIP(value) !== 0 || HOST_NAME.test(value),
  "must be an address or a host name of this machine, without protocol and port",
);
