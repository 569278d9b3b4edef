import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { ConfigurationError } from "../../../src/domain/errors.ts";
import {
  describeConfig,
  loadConfig,
  requireSources,
  type Config,
} from "../../../src/runtime/config/config.ts";
import { VARIABLE_NAMES } from "../../../src/runtime/config/variables.ts";
import { checkScheme } from "../../../src/signature/scheme.ts";

const folder = mkdtempSync(path.join(tmpdir(), "order-mirror-config-"));
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
function write(content: string): string {
  files += 1;
  const file = path.join(folder, `file-${files}`);
  writeFileSync(file, content);
  return file;
}

type Env = Record<string, string>;
const load = (env: Env = {}, envFile: string | null = null): Config =>
  loadConfig(env, { checkScheme, envFile });

/** The problems that loading reports, one per line; none when it loads. */
function problemsOf(env: Env, envFile: string | null = null): string[] {
  try {
    load(env, envFile);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    return error.message.split("\n");
  }
}

const LIVE = { DELIVERY_BASE_URL: "https://api.example.com", DELIVERY_LIVE_API_KEY: "dos_live_key" };
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const TOKEN = "0123456789abcdef";
const listed = {
  sourceId: "acme-live",
  mode: "live",
  organization: "acme",
  baseUrl: "https://acme.example.com/",
  apiKey: "dos_live_acme",
};
const sourcesFile = (...sources: object[]) => ({ SOURCES_FILE: write(JSON.stringify(sources)) });

it("refuses a second address of the database without a first one", () => {
  const url = "postgres://h/d";
  expect(problemsOf({ DATABASE_DIRECT_URL: url })).toEqual([
    "DATABASE_DIRECT_URL is set without DATABASE_URL. Set DATABASE_URL too.",
  ]);
  expect(problemsOf({ DATABASE_DIRECT_URL: url, DATABASE_URL: url })).toEqual([]);
});

it("loads every default from an empty environment, without a source", () => {
  expect(load()).toEqual({
    captureRefused: 0,
    databaseUrl: null,
    databaseDirectUrl: null,
    dataDir: ".data",
    redisUrls: [],
    host: "127.0.0.1",
    port: 3000,
    webhookPort: null,
    healthPort: null,
    sources: [],
    pollIntervalSeconds: 30,
    pollMarginSeconds: 300,
    pollPace: "cycle",
    rateShare: 0.9,
    backfillSince: "P30D",
    apiTokens: [],
    opsPassword: null,
    opsViewerPassword: null,
    localTrust: false,
    publicUrls: [],
    metricsToken: null,
    signOn: null,
    alertWebhook: null,
    writeThrough: false,
    eventsKeptFor: null,
    historyKeptFor: null,
    changesKeptFor: null,
    outgoingWebhooks: [],
    sandboxPort: 4010,
    sandboxSeed: 1,
    logLevel: "info",
    logFormat: expect.stringMatching(/^(json|pretty)$/),
  });
});

it("takes what only looks like a mistake: a path for webhooks, a folder named ~, two free ports", () => {
  const env = { PUBLIC_URL: "https://example.com/hooks/", DATA_DIR: "./~", PORT: "0", WEBHOOK_PORT: "0" };
  expect(problemsOf(env)).toEqual([]);
});

it("cannot be changed once it is loaded", () => {
  const config = load({ ...LIVE, DELIVERY_LIVE_WEBHOOK_SECRETS: SECRET });
  expect(
    [config, config.sources, config.sources[0], config.sources[0]?.webhookSecrets].every(Object.isFrozen),
  ).toBe(true);
});

it("creates the sources live and test for the keys that are set", () => {
  const config = load({
    ...LIVE,
    DELIVERY_BASE_URL: "https://api.example.com/base//",
    DELIVERY_LIVE_WEBHOOK_SECRETS: `${SECRET} , ${OTHER_SECRET},`,
    DELIVERY_TEST_API_KEY: "dos_test_key",
  });
  expect(config.sources).toEqual([
    {
      sourceId: "live",
      mode: "live",
      organization: "default",
      baseUrl: "https://api.example.com/base",
      apiKey: "dos_live_key",
      webhookSecrets: [SECRET, OTHER_SECRET],
      webhookScheme: "standard-webhooks",
    },
    {
      sourceId: "test",
      mode: "test",
      organization: "default",
      baseUrl: "https://api.example.com/base",
      apiKey: "dos_test_key",
      webhookSecrets: [],
      webhookScheme: "standard-webhooks",
    },
  ]);
});

it("treats an empty value as not set, and trims others", () => {
  const empty = Object.fromEntries(VARIABLE_NAMES.map((name) => [name, " "]));
  expect(load(empty)).toEqual(load());
  expect(load({ PORT: " 8080\n" }).port).toBe(8080);
});

it("accepts the alerts' address and secret only together, and only a secret that can sign", () => {
  const url = "https://alerts.example/hook?team=ops";
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  expect(load({ ALERT_WEBHOOK_URL: url, ALERT_WEBHOOK_SECRET: secret }).alertWebhook).toEqual({
    url,
    secret,
  });
  const refusedAddress = { ALERT_WEBHOOK_URL: "http://alerts.example/hook", ALERT_WEBHOOK_SECRET: secret };
  expect(problemsOf(refusedAddress)).toContainEqual(
    expect.stringContaining("must be an address that starts with https:// (only this machine"),
  );
  expect(problemsOf({ ...refusedAddress, ALERT_WEBHOOK_URL: "http://127.0.0.1:9/hook" })).toEqual([]);
  expect(problemsOf({ ALERT_WEBHOOK_URL: url })).toEqual([
    expect.stringContaining("without ALERT_WEBHOOK_SECRET"),
  ]);
  expect(problemsOf({ ALERT_WEBHOOK_SECRET: secret })).toEqual([
    expect.stringContaining("without ALERT_WEBHOOK_URL"),
  ]);
  expect(problemsOf({ ALERT_WEBHOOK_URL: url, ALERT_WEBHOOK_SECRET: "canary!" })).toEqual([
    expect.stringMatching(/^ALERT_WEBHOOK_SECRET: (?!.*canary)/),
  ]);
});

it("reports all problems together, one per line, without secrets", () => {
  const problems = problemsOf({
    PORT: "80a",
    LOG_LEVEL: "loud",
    POLL_PACE: "fast",
    API_TOKENS: "canary",
    DATABASE_URL: "mysql://canary",
    REDIS_URL: "canary",
    DELIVERY_BASE_URL: "https://canary:canary@example.com",
    DELIVERY_LIVE_API_KEY: "canary",
    DELIVERY_LIVE_WEBHOOK_SECRETS: "canary!",
  });
  expect(problems.map((line) => /^[A-Z_]+/.exec(line)?.[0] ?? line)).toEqual([
    "DATABASE_URL",
    "REDIS_URL",
    "PORT",
    "POLL_PACE",
    "API_TOKENS",
    "LOG_LEVEL",
    "DELIVERY_BASE_URL",
    "DELIVERY_LIVE_API_KEY",
    "DELIVERY_LIVE_WEBHOOK_SECRETS",
  ]);
  expect(problems.join()).not.toContain("canary");
});

describe("accepts the limits of each range, and nothing beyond", () => {
  it.each<[string, string[], string[]]>([
    ["PORT", ["0", "1", "65535"], ["-1", "65536", "3000.5", "0x10", "http"]],
    ["SANDBOX_PORT", ["0", "65535"], ["65536"]],
    ["SANDBOX_SEED", ["0", "2147483647"], ["2147483648", "-1", "seed"]],
    ["POLL_INTERVAL_SECONDS", ["0.1", "30", "3600"], ["0", "0.09", "3601", "30s", "1e1"]],
    ["POLL_MARGIN_SECONDS", ["1", "86400"], ["0", "86401", "-1"]],
    ["POLL_PACE", ["cycle", "request"], ["Cycle", "requests"]],
    ["RATE_SHARE_PERCENT", ["1", "100"], ["0", "101", "0.5"]],
    ["WRITE_THROUGH", ["false"], ["1", "yes", "TRUE"]],
    ["LOG_LEVEL", ["trace", "silent"], ["verbose"]],
    ["LOG_FORMAT", ["json", "pretty"], ["text"]],
    [
      "HOST",
      ["0.0.0.0", "::", "localhost", "web-1.internal"],
      ["http://localhost", "localhost:3000", "a b", "-a"],
    ],
    ["BACKFILL_SINCE", ["P0D", "P1Y", "2026-01-31T00:00:00Z"], ["30", "P", "2026-02-30", "yesterday"]],
    ["DATABASE_URL", ["postgres://u:p@h/d", "postgresql://h:5432/d"], ["mysql://h/d", "h", "postgres"]],
    [
      "WEBHOOK_SCHEME",
      ["stripe", '{"header":"x-sig"}'],
      ["strip", "{}", "{header:1}", '{"header":"x","signed":"x"}'],
    ],
    [
      "API_TOKENS",
      [TOKEN, `${TOKEN}@test`, `${TOKEN},${TOKEN}x@live`],
      [TOKEN.slice(1), `${TOKEN} x`, `a@${TOKEN}@live`],
    ],
    [
      "REDIS_URL",
      ["redis://h", "rediss://u:p@h:6380/2", "redis://a:1,redis://b:2", "redis://a/0,redis://b"],
      ["http://h", "redis://", "h:6379", "redis://a,rediss://b", "redis://a/1,redis://b/1"],
    ],
  ])("%s", (name, good, bad) => {
    expect(good.filter((value) => problemsOf({ [name]: value }).length > 0)).toEqual([]);
    for (const value of bad) {
      const problems = problemsOf({ [name]: value });
      expect({ value, problems }).toEqual({ value, problems: [expect.stringContaining(name)] });
    }
  });
});

describe("the provider's address", () => {
  it.each([
    ["https://api.example.com", true],
    ["http://localhost:4010", true],
    ["http://127.0.0.1:4010/base", true],
    ["http://[::1]:4010", true],
    ["http://sandbox.localhost", true],
    ["http://api.example.com", false],
    ["http://127.0.0.1.example.com", false],
    ["http://localhost.example.com", false],
    ["http://10.0.0.1", false],
    ["ftp://api.example.com", false],
    ["api.example.com", false],
    ["https://user:password@api.example.com", false],
    ["https://api.example.com/?a=1", false],
    ["https://api.example.com/#a", false],
    ["https://api.example.com/v1", false],
    ["https://api.example.com/couriers/v1/", false],
    ["https://api.example.com/v1/couriers", true],
  ])("%s", (address, good) => {
    const problems = problemsOf({ DELIVERY_BASE_URL: address, DELIVERY_LIVE_API_KEY: "dos_live_key" });
    const refusal: unknown = expect.stringMatching(/^DELIVERY_BASE_URL must /);
    expect(problems).toEqual(good ? [] : [refusal]);
  });
});

describe("a key's mode", () => {
  it.each([
    ["dos_live_a", true, /never/],
    ["my_own_live_a", true, /never/],
    // The first of the two counts: the rest is the secret, which may contain anything.
    ["dos_live_test_a", true, /never/],
    ["dos_test_live_a", false, /belongs to live mode but holds a test key/],
    ["dos_test_a", false, /belongs to live mode but holds a test key/],
    ["dos_live_", false, /is not a provider key/],
    ["live_a", false, /is not a provider key/],
    ["doslivea", false, /is not a provider key/],
    [
      "Bearer dos_live_a",
      false,
      /is not a provider key: keys are one word with _live_ after the prefix\. Copy it again\.$/,
    ],
  ])("%s", (key, good, message) => {
    const problems = problemsOf({ ...LIVE, DELIVERY_LIVE_API_KEY: key });
    const refusal: unknown = expect.stringMatching(message);
    expect(problems).toEqual(good ? [] : [refusal]);
    expect(problems.join()).not.toContain(key);
  });
});

it.each<[string, Env, RegExp]>([
  [
    "a key without an address",
    { DELIVERY_LIVE_API_KEY: "dos_live_a" },
    /^DELIVERY_LIVE_API_KEY is set without DELIVERY_BASE_URL/,
  ],
  [
    "webhook secrets without an address",
    { DELIVERY_TEST_WEBHOOK_SECRETS: SECRET },
    /^DELIVERY_TEST_WEBHOOK_SECRETS is set without DELIVERY_BASE_URL/,
  ],
  [
    "a webhook secret that does not fit the scheme",
    { ...LIVE, DELIVERY_LIVE_WEBHOOK_SECRETS: "not base64" },
    /^DELIVERY_LIVE_WEBHOOK_SECRETS: .*base64/,
  ],
  [
    "the same webhook secret twice",
    { ...LIVE, DELIVERY_LIVE_WEBHOOK_SECRETS: `${SECRET},${SECRET}` },
    /the same as secret 1/,
  ],
  [
    "the same password for both roles",
    { OPS_PASSWORD: "one for both of them", OPS_VIEWER_PASSWORD: "one for both of them" },
    /^OPS_VIEWER_PASSWORD is the same/,
  ],
  [
    "a sign-on that lets nobody in",
    { OPS_PROXY_ADDRESSES: "10.0.0.5" },
    /^Single sign-on is set, but nobody may log in/,
  ],
  [
    "operators without a sign-on",
    { OPS_OPERATORS: "admins" },
    /^OPS_OPERATORS is set without single sign-on/,
  ],
  ["everybody as operator", { OPS_PROXY_ADDRESSES: "10.0.0.5", OPS_OPERATORS: "*" }, /^OPS_OPERATORS is \*/],
  ...["0.0.0.0/0", "::/0", "10.0.0.0/33", "proxy.internal", "10.0.0.0/8/8", ","].map(
    (value): [string, Env, RegExp] => [
      `the proxy ${value}`,
      { OPS_PROXY_ADDRESSES: value },
      /^OPS_PROXY_ADDRESSES must be addresses/,
    ],
  ),
  ["a header with a colon", { OPS_USER_HEADER: "X-User:" }, /^OPS_USER_HEADER must be the name of a header/],
  ["a password of eleven characters", { OPS_PASSWORD: "elevenchars" }, /^OPS_PASSWORD must have at least 12/],
  ["a viewer's password of one", { OPS_VIEWER_PASSWORD: "a" }, /^OPS_VIEWER_PASSWORD must have at least 12/],
  ["a public address that is none", { PUBLIC_URL: "mirror.example.com" }, /^PUBLIC_URL must be addresses/],
  ...["?a=1", "#a", "/?", "/path#"].map((end): [string, Env, RegExp] => [
    `a public address that ends in ${end}`,
    { PUBLIC_URL: `https://mirror.example.com${end}` },
    /^PUBLIC_URL must be addresses .* a query or a fragment/,
  ]),
  [
    "a tilde that no shell replaced",
    { DATA_DIR: "~/data" },
    /^DATA_DIR must not start with ~, .* write the whole path, .*, not "~\/data"\.$/,
  ],
  [
    "a token for a source that does not exist",
    { ...LIVE, API_TOKENS: `${TOKEN}@test` },
    /token 1, is for the source test/,
  ],
  [
    "a token for the demo's sources that has another name",
    { API_TOKENS: `${TOKEN}@acme` },
    /is for the source acme/,
  ],
  ["a token twice", { API_TOKENS: `${TOKEN},${TOKEN}@test` }, /token 2, is listed twice/],
  [
    "write-through without a token that may write",
    { ...LIVE, API_TOKENS: TOKEN, WRITE_THROUGH: "true" },
    /^WRITE_THROUGH is on, but no token has write access\./,
  ],
  [
    "the same webhook secret for both modes, however it is listed",
    {
      ...LIVE,
      DELIVERY_TEST_API_KEY: "dos_test_key",
      DELIVERY_LIVE_WEBHOOK_SECRETS: `${OTHER_SECRET},${SECRET}`,
      DELIVERY_TEST_WEBHOOK_SECRETS: SECRET,
    },
    /^DELIVERY_TEST_WEBHOOK_SECRETS shares a secret with DELIVERY_LIVE/,
  ],
  [
    "one port for two servers",
    { PORT: "3000", WEBHOOK_PORT: "3000" },
    /^WEBHOOK_PORT is the same as PORT\. Choose another port, or unset it\.$/,
  ],
  [
    "short polling of a provider elsewhere",
    { ...LIVE, POLL_INTERVAL_SECONDS: "29.9" },
    /^POLL_INTERVAL_SECONDS is under 30/,
  ],
])("refuses %s", (_what, env, message) => {
  expect(problemsOf(env)).toEqual([expect.stringMatching(message)]);
});

it("polls a provider on this machine as often as configured", () => {
  const env = { ...LIVE, DELIVERY_BASE_URL: "http://localhost:4010", POLL_INTERVAL_SECONDS: "0.5" };
  expect(load(env).pollIntervalSeconds).toBe(0.5);
  expect(load({ ...LIVE, POLL_INTERVAL_SECONDS: "30" }).pollIntervalSeconds).toBe(30);
});

it("assigns a token to the source that it names, or to live", () => {
  const env = { ...LIVE, DELIVERY_TEST_API_KEY: "dos_test_a", API_TOKENS: `${TOKEN}@test,${TOKEN}-2` };
  expect(load(env).apiTokens).toEqual([
    { token: TOKEN, sourceId: "test", mayWrite: false },
    { token: `${TOKEN}-2`, sourceId: "live", mayWrite: false },
  ]);
});

it("gives a token the right to write when it has +write", () => {
  const env = { ...LIVE, API_TOKENS: `${TOKEN}@live+write,${TOKEN}+write`, WRITE_THROUGH: "true" };
  expect(load(env)).toMatchObject({
    writeThrough: true,
    apiTokens: [
      { token: TOKEN, sourceId: "live", mayWrite: true },
      // Without a source, the plus belongs to the token.
      { token: `${TOKEN}+write`, sourceId: "live", mayWrite: false },
    ],
  });
});

describe("secrets in files", () => {
  it("are read without the final newline", () => {
    const config = load({
      DELIVERY_BASE_URL: "https://api.example.com",
      DELIVERY_LIVE_API_KEY_FILE: write("dos_live_file\n"),
      DELIVERY_LIVE_WEBHOOK_SECRETS_FILE: write(`${SECRET}\n${OTHER_SECRET}\n`),
      DATABASE_URL_FILE: write("postgres://h/d"),
      REDIS_URL_FILE: write("redis://h"),
      API_TOKENS_FILE: write(TOKEN),
      OPS_PASSWORD_FILE: write("operator's word"),
      OPS_VIEWER_PASSWORD_FILE: write("viewer's word"),
    });
    expect(config).toMatchObject({
      databaseUrl: "postgres://h/d",
      redisUrls: ["redis://h"],
      apiTokens: [{ token: TOKEN }],
      opsPassword: "operator's word",
      opsViewerPassword: "viewer's word",
      sources: [{ apiKey: "dos_live_file", webhookSecrets: [SECRET, OTHER_SECRET] }],
    });
  });

  it("may be keys in PEM with their line breaks, several in one file", () => {
    const scheme = JSON.stringify({ header: "x-sig", algorithm: "ed25519", secretFormat: "spki" });
    const keys = [1, 2].map(() =>
      generateKeyPairSync("ed25519").publicKey.export({ type: "spki", format: "pem" }).toString().trim(),
    );
    const file = write(`${keys.join("\n")}\n`);
    const config = load({ ...LIVE, WEBHOOK_SCHEME: scheme, DELIVERY_LIVE_WEBHOOK_SECRETS_FILE: file });
    expect(config.sources[0]?.webhookSecrets).toEqual(keys);
    const sources = sourcesFile({ ...listed, webhookSecretsFile: path.basename(file) });
    expect(load({ WEBHOOK_SCHEME: scheme, ...sources }).sources[0]?.webhookSecrets).toEqual(keys);
  });

  it("are reported when they cannot be read, and not again as a missing key", () => {
    const missing = path.join(folder, "missing");
    expect(
      problemsOf({ DELIVERY_LIVE_API_KEY_FILE: missing, DELIVERY_LIVE_WEBHOOK_SECRETS: SECRET }),
    ).toEqual([`DELIVERY_LIVE_API_KEY_FILE names ${missing}, which does not exist.`]);
    expect(problemsOf({ OPS_PASSWORD_FILE: folder })).toEqual([expect.stringContaining("is a folder")]);
    expect(problemsOf({ OPS_PASSWORD_FILE: write(" \n") })).toEqual([expect.stringContaining("is empty")]);
    expect(problemsOf({ OPS_PASSWORD_FILE: write("x".repeat(65_537)) })).toEqual([
      expect.stringContaining("is too large for a secret"),
    ]);
  });

  it("are refused together with the same secret in the environment", () => {
    expect(problemsOf({ OPS_PASSWORD: "a", OPS_PASSWORD_FILE: write("b") })).toEqual([
      "OPS_PASSWORD and OPS_PASSWORD_FILE are both set. Keep one of them.",
    ]);
  });

  it("are not read for variables that are not secrets", () => {
    expect(load({ PORT_FILE: write("99") }).port).toBe(3000);
  });
});

describe("plausible mistakes", () => {
  it.each([
    ["DELIVERY_LIVE_API_KEY", '"dos_live_abcdefghijklm"'],
    ["OPS_PASSWORD", "'an ops password of some length'"],
    ["PORT", '"3000"'],
  ])("names quotes that became part of %s, as with docker's --env-file", (name, value) => {
    expect(problemsOf({ ...LIVE, [name]: value })).toContain(
      `${name} is in quotes, which are part of its value. Remove them.`,
    );
  });

  it("lets a .env file have quotes", () => {
    expect(problemsOf({}, write(`OPS_PASSWORD="an ops password of some length"\n`))).toEqual([]);
  });
});

describe("the .env file", () => {
  it("adds what the environment lacks, and never overrides it, even an empty value", () => {
    const file = write("PORT=4000\nHOST=::1\nLOG_LEVEL=debug # loud\n");
    const config = load({ PORT: "5000", HOST: "" }, file);
    expect(config).toMatchObject({ port: 5000, host: "127.0.0.1", logLevel: "debug" });
  });

  it("may be missing, but not unreadable", () => {
    expect(load({}, path.join(folder, "missing")).port).toBe(3000);
    expect(problemsOf({}, folder)).toEqual([expect.stringMatching(/^The file .* is a folder/)]);
  });

  it("does not change the process' environment", () => {
    load({}, write("ORDER_MIRROR_CANARY=1\n"));
    expect(process.env["ORDER_MIRROR_CANARY"]).toBeUndefined();
  });
});

describe("the file of sources", () => {
  it("adds sources, with missing values from the variables", () => {
    const scheme = { header: "x-sig" };
    const config = load({
      ...LIVE,
      WEBHOOK_SCHEME: "github",
      ...sourcesFile(
        { ...listed, webhookSecrets: ["first secret here"] },
        { sourceId: "b", mode: "test", organization: "b", apiKey: "dos_test_b", webhookScheme: scheme },
        { sourceId: "c", mode: "live", organization: "b", apiKey: "dos_live_c", webhookScheme: "stripe" },
      ),
    });
    expect(config.sources.map(({ sourceId }) => sourceId)).toEqual(["live", "acme-live", "b", "c"]);
    expect(config.sources[1]).toEqual({
      ...listed,
      baseUrl: "https://acme.example.com",
      webhookSecrets: ["first secret here"],
      webhookScheme: "github",
    });
    expect(config.sources[2]).toMatchObject({
      baseUrl: "https://api.example.com",
      webhookSecrets: [],
      webhookScheme: JSON.stringify(scheme),
    });
    expect(config.sources[3]?.webhookScheme).toBe("stripe");
  });

  it("resolves file names relative to its own folder", () => {
    const key = path.basename(write("dos_live_acme\n"));
    const secrets = path.basename(write(`${SECRET}\n${OTHER_SECRET}\n`));
    const { apiKey: _apiKey, ...rest } = listed;
    const config = load(sourcesFile({ ...rest, apiKeyFile: key, webhookSecretsFile: secrets }));
    expect(config.sources[0]).toMatchObject({
      apiKey: "dos_live_acme",
      webhookSecrets: [SECRET, OTHER_SECRET],
    });
  });

  it.each<[string, object[], RegExp]>([
    ["two sources of one id", [listed, { ...listed, apiKey: "dos_live_b" }], /two sources named acme-live/],
    ["one key in two sources", [listed, { ...listed, sourceId: "b" }], /is the same key as/],
    [
      "a key of the other mode",
      [{ ...listed, mode: "test" }],
      /source acme-live, apiKey belongs to test mode but holds a live key/,
    ],
    ["a key and a file of it", [{ ...listed, apiKeyFile: "x" }], /Keep one of them/],
    [
      "a file that is missing",
      [{ ...listed, apiKey: undefined, apiKeyFile: "x" }],
      /apiKeyFile names .*does not exist/,
    ],
    ["a source without an address", [{ ...listed, baseUrl: undefined }], /has no baseUrl/],
    ["an address without https", [{ ...listed, baseUrl: "http://a.test" }], /baseUrl must start with https/],
    [
      "a scheme that is unsafe",
      [{ ...listed, webhookScheme: { header: "x", signed: "" } }],
      /webhookScheme: /,
    ],
    ["a field it does not know", [{ ...listed, apikey: "x" }], /"apikey"/],
    ["a source id with capitals", [{ ...listed, sourceId: "Acme" }], /0\.sourceId: must be/],
    ["a source id that is too long", [{ ...listed, sourceId: "a".repeat(64) }], /0\.sourceId: must be/],
    ["an unknown mode", [{ ...listed, mode: "prod" }], /0\.mode/],
  ])("refuses %s", (_what, sources, message) => {
    expect(problemsOf(sourcesFile(...sources))).toEqual([expect.stringMatching(message)]);
  });

  it("refuses a source with the id of one from a key variable", () => {
    expect(problemsOf({ ...LIVE, ...sourcesFile({ ...listed, sourceId: "live" }) })).toEqual([
      expect.stringContaining("two sources named live"),
    ]);
  });

  it("accepts a source id of 63 characters", () => {
    expect(load(sourcesFile({ ...listed, sourceId: "a".repeat(63) })).sources).toHaveLength(1);
  });

  it("is reported when it is missing, not JSON or not a list, without quoting it", () => {
    expect(problemsOf({ SOURCES_FILE: path.join(folder, "missing") })).toEqual([
      expect.stringMatching(/^SOURCES_FILE names .*does not exist/),
    ]);
    const broken = problemsOf({ SOURCES_FILE: write('[{"apiKey":"canary" x]') });
    expect(broken).toEqual([expect.stringContaining("is not valid JSON")]);
    expect(broken.join()).not.toContain("canary");
    expect(problemsOf({ SOURCES_FILE: write("{}") })).toEqual([expect.stringContaining("which is invalid")]);
  });
});

it("requires a source only where one is needed, and explains how to configure one", () => {
  for (const keysFor of ["reading", "writing", "nothing"] as const) {
    expect(() => requireSources(load(), keysFor)).toThrow("No source is configured");
    expect(() => requireSources(load(LIVE), keysFor)).not.toThrow();
  }
});

it("requires a key only where it is used", () => {
  const { DELIVERY_LIVE_API_KEY: _key, ...others } = LIVE;
  const keyless = load({ ...others, DELIVERY_LIVE_WEBHOOK_SECRETS: SECRET });
  expect(keyless.sources).toMatchObject([{ sourceId: "live", apiKey: null, webhookSecrets: [SECRET] }]);
  expect(() => requireSources(keyless, "nothing")).not.toThrow();
  expect(() => requireSources(keyless, "writing")).not.toThrow();
  expect(() => requireSources(keyless, "reading")).toThrow("The provider key is missing for live.");
  const writing = {
    ...keyless,
    writeThrough: true,
    apiTokens: [{ token: TOKEN, sourceId: "live", mayWrite: true }],
  };
  expect(() => requireSources(writing, "writing")).toThrow("The provider key is missing for live.");
  const { apiKey: _apiKey, ...unlocked } = listed;
  expect(load(sourcesFile(unlocked)).sources).toMatchObject([{ sourceId: "acme-live", apiKey: null }]);
});

describe("the description", () => {
  const describeWith = (env: Env, envFile: string | null = null) => {
    const rows = describeConfig(load(env, envFile), env, envFile);
    return Object.fromEntries(rows.map(({ name, value, source }) => [name, `${value} (${source})`]));
  };

  it("lists every variable, its value and its origin", () => {
    const rows = describeWith({ PORT: "5000", OPS_PASSWORD_FILE: write("ops password") }, write("HOST=::1"));
    expect(Object.keys(rows)).toEqual(VARIABLE_NAMES);
    expect(rows).toMatchObject({
      PORT: "5000 (environment)",
      HOST: "::1 (.env)",
      OPS_PASSWORD: "set, 12 characters (file)",
      LOG_LEVEL: "info (default)",
      DELIVERY_BASE_URL: "not set (default)",
    });
  });

  it("shows no secret, and the sources of the file", () => {
    const env = {
      ...LIVE,
      DELIVERY_LIVE_API_KEY: "dos_live_canary",
      DELIVERY_LIVE_WEBHOOK_SECRETS: "whsec_canarycanarycanarycanary",
      DATABASE_URL: "postgres://user:canary@h/d",
      REDIS_URL: "redis://user:canary@h",
      API_TOKENS: "canarycanarycanary",
      OPS_PASSWORD: "canarycanary",
      OPS_VIEWER_PASSWORD: "canarycanary2",
      ...sourcesFile({ ...listed, apiKey: "dos_live_canary2", webhookSecrets: [SECRET] }),
    };
    const rows = describeWith(env);
    expect(JSON.stringify(rows)).not.toContain("canary");
    expect(rows).toMatchObject({
      DELIVERY_LIVE_API_KEY: "set, 15 characters (environment)",
      "source acme-live":
        "live mode of acme at https://acme.example.com; key set, 16 characters; 1 webhook secrets (file)",
    });
    expect(Object.keys(rows)).not.toContain("source live");
  });
});

describe("OUTGOING_WEBHOOKS_FILE", () => {
  const endpoint = { name: "erp", url: "https://erp.example.com/orders", secret: SECRET, sources: ["live"] };
  const outgoing = (...endpoints: object[]) => ({
    ...LIVE,
    OUTGOING_WEBHOOKS_FILE: write(JSON.stringify(endpoints)),
  });

  it("lists endpoints that are notified of changes, by default of all kinds", () => {
    const events = ["order.new", "order.status_changed"];
    const secretFile = path.basename(write(`${OTHER_SECRET}\n`));
    const env = outgoing(endpoint, {
      name: "bi",
      url: "https://bi:8080/",
      secretFile,
      sources: ["live", "live"],
      events,
      statuses: ["picked_up"],
      fields: "thin",
      ordered: true,
      rate: 5,
    });
    expect(load(env).outgoingWebhooks).toEqual([
      {
        endpointId: "erp",
        url: endpoint.url,
        secrets: [SECRET],
        sourceIds: ["live"],
        types: null,
        statuses: null,
        fields: "redacted",
        ordered: false,
        rate: null,
      },
      {
        endpointId: "bi",
        url: "https://bi:8080/",
        secrets: [OTHER_SECRET],
        sourceIds: ["live"],
        types: events,
        statuses: ["picked_up"],
        fields: "thin",
        ordered: true,
        rate: 5,
      },
    ]);
  });

  it.each([
    [
      "a source that is not configured",
      { ...endpoint, sources: ["test"] },
      /endpoint erp, names the source test/,
    ],
    ["no secret", { ...endpoint, secret: undefined }, /needs either secret or secretFile/],
    ["a key that signs nothing", { ...endpoint, secret: `${SECRET},whsk_short` }, /whsk_ must be 32 or 64/],
    ["a secret of another format", { ...endpoint, secret: "not base64" }, /endpoint erp, secret: /],
    ["an address that is none", { ...endpoint, url: "erp" }, /which is invalid at 0\.url/],
    ["http to another machine", { ...endpoint, url: "http://erp.example" }, /url must start with https:\/\//],
    [
      "a kind of change that there is not",
      { ...endpoint, events: ["order.lost"] },
      /which is invalid at 0\.events\.0/,
    ],
    ["a name for a file", { ...endpoint, name: "../erp" }, /which is invalid at 0\.name/],
    ["something unknown", { ...endpoint, secrets: [] }, /which is invalid/],
    ["two endpoints with the same name", [endpoint, endpoint], /listed twice/],
  ])("refuses %s", (_, endpoints, problem) => {
    const problems = problemsOf(outgoing(...[endpoints].flat()));
    expect(problems).toEqual([expect.stringMatching(problem)]);
    expect(problems.join()).not.toContain(SECRET);
  });
});

describe("single sign-on", () => {
  it("follows the variables, and is off without them", () => {
    const env = {
      ...LIVE,
      OPS_PROXY_ADDRESSES: "10.0.0.5, fd00::/8",
      OPS_USER_HEADER: "Remote-User",
      OPS_OPERATORS: "admins, ada@example.com",
      OPS_VIEWERS: "*",
    };
    expect(load(env).signOn).toEqual({
      addresses: ["10.0.0.5", "fd00::/8"],
      userHeader: "remote-user",
      groupsHeader: "x-forwarded-groups",
      operators: ["admins", "ada@example.com"],
      viewers: ["*"],
    });
  });
});

describe("an address with a secret in it", () => {
  const addresses = [
    "https://me:hush-hush@api.example.com/path",
    "https://me:12/hush-hush@api.example.com/path",
    "https://me:hush-hush@api.example.com:none",
    "https:/me:hush-hush@api.example.com",
    "https://hush-hush@api.example.com",
    "https://api.example.com/path?token=hush-hush",
    "https://api.example.com/path#hush-hush",
    "mirror.example.com,https://me:hush-hush@api.example.com",
    "postgres://me:hush-hush@database/mirror",
    "redis://:hush-hush@queue:6379",
    "me:hush-hush@api.example.com",
  ];

  it.each(VARIABLE_NAMES.flatMap((name) => [name, `${name}_FILE`]))("is never shown as %s", (name) => {
    const shown = (address: string): unknown => {
      const env = { ...LIVE, [name]: address };
      const problems = problemsOf(env);
      return problems.length > 0 ? problems : describeConfig(load(env), env, null);
    };
    expect(addresses.filter((address) => JSON.stringify(shown(address)).includes("hush-hush"))).toEqual([]);
  });

  // Here the driver would take a part of the password for the port, and show it when the server cannot be reached.
  it.each([
    ["DATABASE_URL", "postgres://me:12/hush@database/mirror"],
    ["DATABASE_URL", "postgres://me:12#hush@database/mirror"],
    ["DATABASE_URL", "postgres://me:12?hush@database/mirror"],
    ["REDIS_URL", "redis://me:12/hush@queue:6379"],
    ["REDIS_URL", "rediss://me:12#hush@queue:6379"],
  ])("is refused in %s when a character of the password is not encoded: %s", (name, address) => {
    expect(problemsOf({ [name]: address })).toEqual([expect.stringMatching(`^${name} must look like`)]);
  });

  it.each(["ALERT_WEBHOOK_URL", "PUBLIC_URL"])("is refused as %s, which sends no login", (name) => {
    const env = {
      ALERT_WEBHOOK_SECRET: SECRET,
      PUBLIC_URL: "https://mirror.example.com",
    };
    expect(problemsOf({ ...env, [name]: "https://me:hush-hush@example.com" })).toContainEqual(
      expect.stringMatching(`^${name} must .* without a user`),
    );
  });
});
