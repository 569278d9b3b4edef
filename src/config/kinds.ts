import { isIP } from "node:net";
import { z } from "zod";
import { describeSchemaIssue } from "../domain/schemaIssue.ts";
import { namesThisMachine } from "../process/loopback.ts";
import { findSince, parseDuration } from "./duration.ts";

/*
 * The kinds of settings. Each says how the text of a variable becomes a value, and what a value must be, wherever it
 * comes from. Messages are worded to follow the name of a setting, and do not quote the value.
 */

/** A kind of setting, which is given as `Given` and used as `Value`. */
export interface Kind<Given, Value> {
  /** The value that a trimmed text means; undefined for a text that means none. */
  readonly fromText: (text: string) => Given | undefined;
  /** Checks a value. It may also be one of another type: options come from programs without types. */
  check(given: Given | undefined): Checked<Value>;
  /** True if values must not be shown; NAME_FILE can then supply the text. */
  readonly secret: boolean;
}

type Checked<Value> =
  | { readonly success: true; readonly data: Value }
  | {
      readonly success: false;
      readonly error: { readonly issues: readonly { readonly message: string }[] };
    };

function makeKind<Given, Value>(
  schema: z.ZodType<Value, Given>,
  fromText: (text: string) => Given | undefined,
): Kind<Given, Value> {
  return {
    fromText,
    check: (given) => schema.safeParse(given, { error: describeSchemaIssue }),
    secret: false,
  };
}

const ofText = <Value>(schema: z.ZodType<Value, string>) => makeKind(schema, (value) => value);

/** Makes of a kind one whose values must not be shown. */
function secret<Given, Value>(kind: Kind<Given, Value>): Kind<Given, Value> {
  return { ...kind, secret: true };
}

const DAY_SECONDS = 86_400;
const TOKEN_LENGTH_MIN = 16;
const PASSWORD_LENGTH_MIN = 12;
/** The characters of a bearer token (RFC 6750, section 2.1). */
const TOKEN = /^[A-Za-z0-9._~+/=-]+$/;
/** Long enough for everything that looks back: repairs, nightly comparisons, readers that were disconnected. */
const KEPT_DAYS_MIN = 7;

const string = z.string();
export const text = ofText(string);
export const secretText = secret(text);
export const lowerCaseText = ofText(string.toLowerCase());

export const oneOf = <const Words extends readonly [string, ...string[]]>(words: Words) => {
  const schema = z.enum(words, `must be one of ${words.join(", ")}`);
  // A text that is none of the words is refused by the schema.
  return makeKind<Words[number], Words[number]>(schema, (word) => word as Words[number]);
};

export const yesOrNo = makeKind(z.boolean("must be one of true, false"), (word) =>
  word === "true" ? true : word === "false" ? false : undefined,
);

const numberFrom = (shape: RegExp) => (value: string) => (shape.test(value) ? Number(value) : undefined);

export function wholeNumber(min: number, max: number) {
  const message = `must be a whole number from ${min} to ${max}`;
  return makeKind(z.int(message).min(min, message).max(max, message), numberFrom(/^\d{1,10}$/));
}

export function seconds(min: number, max: number) {
  const message = `must be a number of seconds from ${min} to ${max}`;
  return makeKind(z.number(message).min(min, message).max(max, message), numberFrom(/^\d{1,6}(\.\d{1,3})?$/));
}

export const port = wholeNumber(0, 65_535);

/** The values of a text, separated by commas or lines: files with secrets often have one per line. */
export function splitList(value: string): string[] {
  const entries = value.split(/[,\n]/).map((entry) => entry.trim());
  return entries.filter((entry) => entry !== "");
}

/** A text without any value sets nothing, and so is a mistake. */
function fromList(value: string): string[] | undefined {
  const entries = splitList(value);
  return entries.length > 0 ? entries : undefined;
}

/** A kind of list, which callers may also give as a readonly array. */
function listOf(isEntry: (entry: string) => boolean, message: string): Kind<readonly string[], string[]> {
  return makeKind(
    z.array(z.string(), message).refine((entries) => entries.every(isEntry), message),
    fromList,
  );
}

export const list = listOf(() => true, "must be a list of texts");
export const secretList = secret(list);

/** The address, if it is one with one of these protocols. */
function parseAddress(value: string, protocols: string): URL | undefined {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  return url && protocols.split(" ").includes(url.protocol) ? url : undefined;
}

/** A web address without a user and password, also where a `/` that was not encoded has ended the password early. */
function parseWebAddress(value: string): URL | undefined {
  const url = parseAddress(value, "https: http:");
  const holdsLogin = url && (url.username !== "" || url.password !== "" || url.pathname.includes("@"));
  return holdsLogin ? undefined : url;
}

/** Over http anybody on the way can read what is sent, so only this machine may use it. */
function isProtected({ protocol, host }: URL): boolean {
  return protocol === "https:" || namesThisMachine(host);
}

const isWithoutQuery = (value: string) => !/[?#]/.test(value);

/** An address to which orders or alerts are sent; a login in it would not be sent. */
export const targetAddress = string.refine((value) => {
  const url = parseWebAddress(value);
  return url !== undefined && isProtected(url);
}, "must be an address that starts with https:// (only this machine may use http://), without a user and password");

/** The provider's base address, without a trailing slash, so that paths can be appended. */
export const providerAddress = string.overwrite(trimAddress).refine(
  (value) => {
    const url = parseWebAddress(value);
    return url && isProtected(url) && isWithoutQuery(value) && !/\/v1\/*$/.test(url.pathname);
  },
  {
    error: ({ input }) =>
      input === ""
        ? "is missing"
        : "must start with https:// (only this machine may use http://), without a user and password (the key goes in a variable), a query or a fragment, or /v1 at its end, which every request adds",
  },
);

/** `address` without trailing slashes. */
export function trimAddress(address: string): string {
  return address.replace(/\/+$/, "");
}

/** A password with one of / ? # ends the address early: the driver would name its beginning in errors. */
const endsEarly = (value: string) => /^[^:]+:\/\/[^/?#]*[/?#].*@/s.test(value);

/**
 * TLS modes that the driver treats as verify-full, with a warning of eight lines each time: every encrypted connection
 * verifies, unless `uselibpqcompat` is set.
 */
const TAKEN_FOR_VERIFY_FULL = /(?<=[?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/;

const postgresAddress = string
  .refine(
    (value) => !/^postgres(?:ql)?:(?!\/\/)/.test(value),
    "lacks the two slashes after its scheme: write postgres://user:password@host:5432/database",
  )
  .refine(
    (value) => parseAddress(value, "postgres: postgresql:") !== undefined && !endsEarly(value),
    "must look like postgres://user:password@host:5432/database; in a password, write @ as %40, : as %3A, / as %2F, # as %23 and % as %25",
  )
  .transform((value) =>
    value.includes("uselibpqcompat=") ? value : value.replace(TAKEN_FOR_VERIFY_FULL, "verify-full"),
  );
export const postgresUrl = secret(ofText(postgresAddress));

const isRedisUrl = (value: string) =>
  (parseAddress(value, "redis: rediss:")?.hostname ?? "") !== "" && !endsEarly(value);

export const redisUrls = secret(
  listOf(
    isRedisUrl,
    "must look like redis://host:6379 or rediss://host:6379; for a cluster, one for each node",
  ),
);

/** `TOKEN` is for the source `live`, `TOKEN@SOURCE` for that source; `TOKEN@SOURCE+write` also has write access. */
const TOKEN_ENTRY = /^([^]*?)(?:@([^@]*?)(\+write)?)?$/;
const TOKEN_RULE = `at least ${TOKEN_LENGTH_MIN} letters, digits or . _ ~ + / = -`;
const isToken = (value: string) => value.length >= TOKEN_LENGTH_MIN && TOKEN.test(value);

const tokenEntries = z
  .array(z.string())
  .transform((entries) =>
    entries.map((entry) => {
      const [, token = "", sourceId = "live", write] = TOKEN_ENTRY.exec(entry) ?? [];
      return { token, sourceId, mayWrite: write !== undefined };
    }),
  )
  .superRefine((entries, context) => {
    const report = (message: string) => context.addIssue({ code: "custom", message });
    for (const [index, { token }] of entries.entries()) {
      const name = `has a token (number ${index + 1}) that is`;
      if (!isToken(token)) report(`${name} not ${TOKEN_RULE}; create one with: openssl rand -hex 24`);
      if (entries.findIndex((other) => other.token === token) < index)
        report(`${name} listed twice; list each token once`);
    }
  });

/** A bearer token of the read API, with the source that it may read. */
export interface ApiToken {
  readonly token: string;
  readonly sourceId: string;
  readonly mayWrite: boolean;
}

export const tokens: Kind<readonly string[], ApiToken[]> = secret(makeKind(tokenEntries, fromList));

const PREFIX_MAX: Readonly<Record<number, number>> = { 4: 32, 6: 128 };

/** True for an address, and for a network in CIDR notation unless it covers every address. */
function isNetwork(value: string): boolean {
  const [, address = "", prefix = "1"] = /^([^/]+)(?:\/([1-9]\d{0,2}))?$/.exec(value) ?? [];
  return Number(prefix) <= (PREFIX_MAX[isIP(address)] ?? 0);
}

export const password = secret(
  ofText(
    string.min(
      PASSWORD_LENGTH_MIN,
      `must have at least ${PASSWORD_LENGTH_MIN} characters; create one with: openssl rand -hex 12`,
    ),
  ),
);

export const token = secret(
  ofText(string.refine(isToken, `must be ${TOKEN_RULE}; create one with: openssl rand -hex 24`)),
);

export const keptFor = ofText(
  string.refine(
    (value) => (parseDuration(value) ?? 0) >= KEPT_DAYS_MIN * DAY_SECONDS,
    `must be an ISO 8601 duration of at least ${KEPT_DAYS_MIN} days, such as P90D`,
  ),
);

export const since = ofText(
  string.refine(
    (value) => findSince(value, 0n) !== undefined,
    "must be an ISO 8601 duration such as P30D, or an instant such as 2026-01-31T00:00:00Z",
  ),
);

export const folder = ofText(
  string.refine(
    (value) => !value.startsWith("~"),
    "must not start with ~, which only a shell replaces; write the whole path, or ./~ for a folder of that name",
  ),
);

export const secretAddress = secret(ofText(targetAddress));

/** A path is the prefix that a proxy removes from the addresses of webhooks. */
export const publicUrls = listOf(
  (value) => parseWebAddress(value) !== undefined && isWithoutQuery(value),
  "must be addresses that start with https:// or http://, without a user and password, a query or a fragment",
);

export const networks = listOf(
  isNetwork,
  "must be addresses such as 10.0.0.5, or networks such as 10.0.0.0/24 that are not the whole internet",
);
