import { isIP } from "node:net";
import { z } from "zod";
import { namesThisMachine } from "../process/loopback.ts";
import { LOG_LEVELS } from "../process/telemetry/logger.ts";
import { findSince, parseDuration } from "./duration.ts";

/*
 * Every variable that the product reads, in the order of .env.example, which says what each means. Schemas parse texts
 * that are trimmed and not empty; their messages are worded to follow "NAME …" and do not quote the text.
 */

export interface Variable {
  readonly schema: z.ZodType<unknown, string>;
  readonly default?: string;
  /** True if its value must not be shown; NAME_FILE can then supply it. */
  readonly secret?: true;
}

const HOUR_SECONDS = 3_600;
const DAY_SECONDS = 86_400;
const TOKEN_LENGTH_MIN = 16;
const PASSWORD_LENGTH_MIN = 12;
/** The characters of a bearer token (RFC 6750, section 2.1). */
const TOKEN = /^[A-Za-z0-9._~+/=-]+$/;
/** Long enough for everything that looks back: repairs, nightly comparisons, readers that were disconnected. */
const KEPT_DAYS_MIN = 7;

const text = z.string();

const oneOf = <const Words extends readonly [string, ...string[]]>(words: Words) =>
  z.enum(words, `must be one of ${words.join(", ")}`);
const yesOrNo = oneOf(["true", "false"]).transform((value) => value === "true");

function ranged(shape: RegExp, kind: string, [min, max]: readonly [number, number]) {
  const message = `must be ${kind} from ${min} to ${max}`;
  return text
    .regex(shape, message)
    .transform(Number)
    .refine((value) => value >= min && value <= max, message);
}
const wholeNumber = (min: number, max: number) => ranged(/^\d{1,10}$/, "a whole number", [min, max]);
const seconds = (min: number, max: number) =>
  ranged(/^\d{1,6}(\.\d{1,3})?$/, "a number of seconds", [min, max]);
const port = wholeNumber(0, 65_535);

/** Values separated by commas or lines: files with secrets often have one per line. */
export const list = text.transform((value) => {
  const entries = value.split(/[,\n]/).map((entry) => entry.trim());
  return entries.filter((entry) => entry !== "");
});

const listOf = (isEntry: (entry: string) => boolean, message: string) =>
  list.refine((entries) => entries.length > 0 && entries.every(isEntry), { error: message, abort: true });

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
export const targetAddress = text.refine((value) => {
  const url = parseWebAddress(value);
  return url !== undefined && isProtected(url);
}, "must be an address that starts with https:// (only this machine may use http://), without a user and password");

/** The provider's base address, without a trailing slash, so that paths can be appended. */
export const providerAddress = text.overwrite(trimAddress).refine(
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

const databaseUrl = text
  .refine(
    (value) => parseAddress(value, "postgres: postgresql:") !== undefined && !endsEarly(value),
    "must look like postgres://user:password@host:5432/database; in a password, write @ as %40, : as %3A, / as %2F, # as %23 and % as %25",
  )
  .transform((value) =>
    value.includes("uselibpqcompat=") ? value : value.replace(TAKEN_FOR_VERIFY_FULL, "verify-full"),
  );

const isRedisUrl = (value: string) =>
  (parseAddress(value, "redis: rediss:")?.hostname ?? "") !== "" && !endsEarly(value);

const redisUrls = listOf(
  isRedisUrl,
  "must look like redis://host:6379 or rediss://host:6379; for a cluster, comma separated",
);

/** `TOKEN` is for the source `live`, `TOKEN@SOURCE` for that source; `TOKEN@SOURCE+write` also has write access. */
const TOKEN_ENTRY = /^([^]*?)(?:@([^@]*?)(\+write)?)?$/;
const TOKEN_RULE = `at least ${TOKEN_LENGTH_MIN} letters, digits or . _ ~ + / = -`;
const isToken = (value: string) => value.length >= TOKEN_LENGTH_MIN && TOKEN.test(value);

const tokens = list
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

const PREFIX_MAX: Readonly<Record<number, number>> = { 4: 32, 6: 128 };

/** True for an address, and for a network in CIDR notation unless it covers every address. */
function isNetwork(value: string): boolean {
  const [, address = "", prefix = "1"] = /^([^/]+)(?:\/([1-9]\d{0,2}))?$/.exec(value) ?? [];
  return Number(prefix) <= (PREFIX_MAX[isIP(address)] ?? 0);
}

const password = text.min(
  PASSWORD_LENGTH_MIN,
  `must have at least ${PASSWORD_LENGTH_MIN} characters; create one with: openssl rand -hex 12`,
);

const keptFor = text.refine(
  (value) => (parseDuration(value) ?? 0) >= KEPT_DAYS_MIN * DAY_SECONDS,
  `must be an ISO 8601 duration of at least ${KEPT_DAYS_MIN} days, such as P90D`,
);

export const VARIABLES = {
  DELIVERY_BASE_URL: { schema: text },
  DELIVERY_LIVE_API_KEY: { schema: text, secret: true },
  DELIVERY_TEST_API_KEY: { schema: text, secret: true },
  DELIVERY_LIVE_WEBHOOK_SECRETS: { schema: list, secret: true },
  DELIVERY_TEST_WEBHOOK_SECRETS: { schema: list, secret: true },
  WEBHOOK_SCHEME: { schema: text, default: "standard-webhooks" },
  CAPTURE_REFUSED: { schema: wholeNumber(0, 100), default: "0" },
  SOURCES_FILE: { schema: text },
  DATABASE_URL: { schema: databaseUrl, secret: true },
  DATABASE_DIRECT_URL: { schema: databaseUrl, secret: true },
  DATA_DIR: {
    schema: text.refine(
      (value) => !value.startsWith("~"),
      "must not start with ~, which only a shell replaces; write the whole path, or ./~ for a folder of that name",
    ),
    default: ".data",
  },
  REDIS_URL: { schema: redisUrls, secret: true },
  HOST: { schema: text, default: "127.0.0.1" },
  PORT: { schema: port, default: "3000" },
  WEBHOOK_PORT: { schema: port },
  HEALTH_PORT: { schema: port },
  POLL_INTERVAL_SECONDS: { schema: seconds(0.1, HOUR_SECONDS), default: "30" },
  POLL_MARGIN_SECONDS: { schema: seconds(1, DAY_SECONDS), default: "300" },
  POLL_PACE: { schema: oneOf(["cycle", "request"]), default: "cycle" },
  RATE_SHARE_PERCENT: { schema: wholeNumber(1, 100), default: "90" },
  BACKFILL_SINCE: {
    schema: text.refine(
      (value) => findSince(value, 0n) !== undefined,
      "must be an ISO 8601 duration such as P30D, or an instant such as 2026-01-31T00:00:00Z",
    ),
    default: "P30D",
  },
  API_TOKENS: { schema: tokens, secret: true },
  OPS_PASSWORD: { schema: password, secret: true },
  OPS_VIEWER_PASSWORD: { schema: password, secret: true },
  METRICS_TOKEN: {
    schema: text.refine(isToken, `must be ${TOKEN_RULE}; create one with: openssl rand -hex 24`),
    secret: true,
  },
  LOCAL_TRUST: { schema: yesOrNo },
  PUBLIC_URL: {
    // A path is the prefix that a proxy removes from the addresses of webhooks.
    schema: listOf(
      (value) => parseWebAddress(value) !== undefined && isWithoutQuery(value),
      "must be addresses that start with https:// or http://, without a user and password, a query or a fragment, comma separated",
    ),
  },
  OPS_PROXY_ADDRESSES: {
    schema: listOf(
      isNetwork,
      "must be addresses such as 10.0.0.5, or networks such as 10.0.0.0/24 that are not the whole internet, comma separated",
    ),
  },
  OPS_USER_HEADER: { schema: text.toLowerCase(), default: "x-forwarded-user" },
  OPS_GROUPS_HEADER: { schema: text.toLowerCase(), default: "x-forwarded-groups" },
  OPS_OPERATORS: { schema: list },
  OPS_VIEWERS: { schema: list },
  ALERT_WEBHOOK_URL: { schema: targetAddress, secret: true },
  ALERT_WEBHOOK_SECRET: { schema: text, secret: true },
  WRITE_THROUGH: { schema: yesOrNo, default: "false" },
  EVENTS_KEPT_FOR: { schema: keptFor },
  HISTORY_KEPT_FOR: { schema: keptFor },
  CHANGES_KEPT_FOR: { schema: keptFor },
  OUTGOING_WEBHOOKS_FILE: { schema: text },
  SANDBOX_PORT: { schema: port, default: "4010" },
  SANDBOX_SEED: { schema: wholeNumber(0, 2 ** 31 - 1), default: "1" },
  LOG_LEVEL: { schema: oneOf(LOG_LEVELS), default: "info" },
  LOG_FORMAT: { schema: oneOf(["json", "pretty"]) },
} as const satisfies Record<string, Variable>;

export type VariableName = keyof typeof VARIABLES;

/** The parsed values of variables; null if not set and without a default. */
export type Values = {
  readonly [Name in VariableName]:
    | z.output<(typeof VARIABLES)[Name]["schema"]>
    | ((typeof VARIABLES)[Name] extends { readonly default: string } ? never : null);
};

export const VARIABLE_NAMES = Object.keys(VARIABLES) as readonly VariableName[];

export function describeVariable(name: VariableName): Variable {
  return VARIABLES[name];
}
