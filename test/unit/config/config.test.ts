import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { ConfigurationError } from "../../../src/domain/errors.ts";
import { requireSources, type Config } from "../../../src/config/config.ts";
import { describeConfig, listUnknownVariables, loadConfig } from "../../../src/config/environment.ts";
import { SETTINGS } from "../../../src/config/settings.ts";

const VARIABLE_NAMES = Object.values(SETTINGS).map(({ variable }) => variable);

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
const load = (env: Env = {}, envFile: string | null = null): Config => loadConfig(env, envFile);

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
/** Both sources, of a provider on this machine. */
const LOCAL = {
  DELIVERY_BASE_URL: "http://localhost:4010",
  DELIVERY_LIVE_API_KEY: "dos_live_key",
  DELIVERY_TEST_API_KEY: "dos_test_key",
};
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

it("loads every default from an empty environment, without a source", () => {
  expect(load()).toEqual({
    deliveryBaseUrl: null,
    deliveryLiveApiKey: null,
    deliveryTestApiKey: null,
    deliveryLiveWebhookSecrets: [],
    deliveryTestWebhookSecrets: [],
    webhookScheme: "standard-webhooks",
    sourcesFile: null,
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
    rateSharePercent: 90,
    backfillSince: "P30D",
    apiTokens: [],
    opsPassword: null,
    opsViewerPassword: null,
    localTrust: false,
    publicUrls: [],
    metricsToken: null,
    opsProxyAddresses: [],
    opsUserHeader: "x-forwarded-user",
    opsGroupsHeader: "x-forwarded-groups",
    opsOperators: [],
    opsViewers: [],
    signOn: null,
    alertWebhookUrl: null,
    alertWebhookSecret: null,
    alertWebhook: null,
    outgoingWebhooksFile: null,
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

it("sends alerts with an address and a secret together", () => {
  const url = "https://alerts.example/hook?team=ops";
  const env = { ALERT_WEBHOOK_URL: url, ALERT_WEBHOOK_SECRET: SECRET };
  expect(load(env).alertWebhook).toEqual({ url, secret: SECRET });
  expect(problemsOf({ ...env, ALERT_WEBHOOK_URL: "http://127.0.0.1:9/hook" })).toEqual([]);
  expect(problemsOf({ ...env, ALERT_WEBHOOK_URL: "http://alerts.example" })).toContainEqual(
    expect.stringMatching(/^ALERT_WEBHOOK_URL must be an address that starts with https:/),
  );
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
    DELIVERY_LIVE_WEBHOOK_SECRETS: `canary!,${SECRET}`,
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

it("reports what is wrong with a source that has no address, and nothing about those who name it", () => {
  const env = {
    DELIVERY_LIVE_API_KEY: "dos_test_key",
    WEBHOOK_SCHEME: "strip",
    API_TOKENS: TOKEN,
    ...sourcesFile({ ...listed, webhookScheme: "stripe" }),
  };
  expect(problemsOf(env)).toEqual([
    "DELIVERY_BASE_URL is missing.",
    expect.stringMatching(/^DELIVERY_LIVE_API_KEY belongs to live mode/),
    expect.stringMatching(/^WEBHOOK_SCHEME is wrong: /),
  ]);
});

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
  ["OPS_PASSWORD", ["twelve chars"], ["elevenchars"]],
  ["METRICS_TOKEN", [TOKEN], [TOKEN.slice(1)]],
  ["EVENTS_KEPT_FOR", ["P7D", "P1Y"], ["P6D", "7", "forever"]],
  ["OPS_VIEWER_PASSWORD", ["twelve chars"], ["a"]],
  ["DATA_DIR", ["./~", "/var/lib"], ["~/data", "~"]],
  [
    "PUBLIC_URL",
    ["https://a.example/hooks/,http://b"],
    ["a.example", "https://a.example?a=1", "https://a.example#a", "https://a.example/?", "ftp://a"],
  ],
  [
    "REDIS_URL",
    ["redis://h", "rediss://u:p@h:6380/2", "redis://a:1,redis://b:2"],
    ["http://h", "redis://", "h:6379"],
  ],
])("accepts the limits of each range, and nothing beyond: %s", (name, good, bad) => {
  expect(good.filter((value) => problemsOf({ ...LOCAL, [name]: value }).length > 0)).toEqual([]);
  for (const value of bad) {
    const problems = problemsOf({ ...LOCAL, [name]: value });
    expect({ value, problems }).toEqual({ value, problems: [expect.stringContaining(name)] });
  }
});

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
])("the provider's address: %s", (address, good) => {
  const problems = problemsOf({ DELIVERY_BASE_URL: address, DELIVERY_LIVE_API_KEY: "dos_live_key" });
  const refusal: unknown = expect.stringMatching(/^DELIVERY_BASE_URL must /);
  expect(problems).toEqual(good ? [] : [refusal]);
});

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
])("a key's mode: %s", (key, good, message) => {
  const problems = problemsOf({ ...LIVE, DELIVERY_LIVE_API_KEY: key });
  const refusal: unknown = expect.stringMatching(message);
  expect(problems).toEqual(good ? [] : [refusal]);
  expect(problems.join()).not.toContain(key);
});

it.each<[Env, RegExp]>([
  [{ DELIVERY_LIVE_API_KEY: "dos_live_a" }, /^DELIVERY_BASE_URL is missing\.$/],
  [{ DELIVERY_TEST_WEBHOOK_SECRETS: SECRET }, /^DELIVERY_BASE_URL is missing\.$/],
  [
    { ...LIVE, DELIVERY_LIVE_WEBHOOK_SECRETS: `${SECRET},not base64` },
    /^DELIVERY_LIVE_WEBHOOK_SECRETS is .*base64/,
  ],
  [{ ...LIVE, DELIVERY_LIVE_WEBHOOK_SECRETS: `${SECRET},${SECRET}` }, /the same as secret 1/],
  [{ DATABASE_DIRECT_URL: "postgres://h/d" }, /^DATABASE_DIRECT_URL is set without DATABASE_URL/],
  [{ ALERT_WEBHOOK_URL: "https://a.example" }, /^ALERT_WEBHOOK_URL is set without ALERT_WEBHOOK_SECRET/],
  [{ ALERT_WEBHOOK_SECRET: SECRET }, /^ALERT_WEBHOOK_SECRET is set without ALERT_WEBHOOK_URL/],
  [
    { ALERT_WEBHOOK_URL: "https://a.example", ALERT_WEBHOOK_SECRET: "canary!" },
    /^ALERT_WEBHOOK_SECRET is wrong: (?!.*canary)/,
  ],
  [
    { OPS_PASSWORD: "one for both of them", OPS_VIEWER_PASSWORD: "one for both of them" },
    /^OPS_VIEWER_PASSWORD is the same/,
  ],
  [{ OPS_PROXY_ADDRESSES: "10.0.0.5" }, /^Single sign-on is set, but nobody may log in/],
  [{ OPS_OPERATORS: "admins" }, /^OPS_OPERATORS is set without OPS_PROXY_ADDRESSES/],
  [{ OPS_PROXY_ADDRESSES: "10.0.0.5", OPS_OPERATORS: "*" }, /^OPS_OPERATORS is \*/],
  ...["0.0.0.0/0", "::/0", "10.0.0.0/33", "proxy.internal", "10.0.0.0/8/8", ","].map(
    (value): [Env, RegExp] => [{ OPS_PROXY_ADDRESSES: value }, /^OPS_PROXY_ADDRESSES must be addresses/],
  ),
  [{ ...LIVE, API_TOKENS: `${TOKEN}@test` }, /token 1, is for the source test/],
  [{ API_TOKENS: `${TOKEN}@acme` }, /is for the source acme/],
  [{ API_TOKENS: `${TOKEN},${TOKEN}@test` }, /^API_TOKENS has a token \(number 2\) that is listed twice/],
  [
    { ...LIVE, API_TOKENS: TOKEN, WRITE_THROUGH: "true" },
    /^WRITE_THROUGH is on, but no token has write access\./,
  ],
  [
    {
      ...LOCAL,
      DELIVERY_LIVE_WEBHOOK_SECRETS: `${OTHER_SECRET},${SECRET}`,
      DELIVERY_TEST_WEBHOOK_SECRETS: SECRET,
    },
    /^The sources live and test share a webhook secret, .*DELIVERY_TEST_WEBHOOK_SECRETS/,
  ],
  [{ ...LIVE, POLL_INTERVAL_SECONDS: "29.9" }, /^POLL_INTERVAL_SECONDS is under 30/],
])("refuses %j", (env, message) => {
  expect(problemsOf(env)).toEqual([expect.stringMatching(message)]);
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

  it("are reported when they cannot be read, and not again as a missing key", () => {
    const missing = path.join(folder, "missing");
    const env = { ...LIVE, DELIVERY_LIVE_API_KEY: "", DELIVERY_LIVE_API_KEY_FILE: missing };
    expect(problemsOf(env)).toEqual([`DELIVERY_LIVE_API_KEY_FILE names ${missing}, which does not exist.`]);
    expect(problemsOf({ OPS_PASSWORD_FILE: folder })).toEqual([expect.stringContaining("is a folder")]);
    expect(problemsOf({ OPS_PASSWORD_FILE: write(" \n") })).toEqual([expect.stringContaining("is empty")]);
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

it.each([
  ["DELIVERY_LIVE_API_KEY", '"dos_live_abcdefghijklm"'],
  ["OPS_PASSWORD", "'an ops password of some length'"],
  ["PORT", '"3000"'],
])("names quotes that became part of %s, as with docker's --env-file", (name, value) => {
  expect(problemsOf({ ...LIVE, [name]: value })).toContain(
    `${name} is in quotes, which are part of its value. Remove them.`,
  );
  expect(problemsOf({}, write(`OPS_PASSWORD="an ops password of some length"\n`))).toEqual([]);
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

it("a variable that nothing reads is named when it stands in .env, or begins like one of ours, with the one that was probably meant", () => {
  const file = write("POLL_INTERVAL=60\nDELIVERY_LIVE_APIKEY=x\nPORT_FILE=x\nCOLOUR=red\nPORT=1\n");
  const env = {
    API_TOKEN: "x",
    POLL_MARGIN_SECOND: "10",
    OPS_PASSWORD_FILE: "x",
    DATABASE_POOL: "5",
    SANDBOX_PORT_4010_TCP: "tcp://10.0.0.1:4010",
    LANG: "C",
  };
  expect(listUnknownVariables(env, file)).toEqual([
    ".env: unknown variable COLOUR.",
    ".env: unknown variable DELIVERY_LIVE_APIKEY; did you mean DELIVERY_LIVE_API_KEY?",
    ".env: unknown variable POLL_INTERVAL; did you mean POLL_INTERVAL_SECONDS?",
    ".env: unknown variable PORT_FILE.",
    "environment: unknown variable API_TOKEN; did you mean API_TOKENS?",
    "environment: unknown variable POLL_MARGIN_SECOND; did you mean POLL_MARGIN_SECONDS?",
  ]);
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

  it.each<[string, object[], RegExp]>([
    ["two sources of one id", [listed, { ...listed, apiKey: "dos_live_b" }], /two sources named acme-live/],
    ["one key in two sources", [listed, { ...listed, sourceId: "b" }], /have the same key/],
    [
      "a key of the other mode",
      [{ ...listed, mode: "test" }],
      /source acme-live, apiKey belongs to test mode but holds a live key/,
    ],
    [
      "a source without an address",
      [{ ...listed, baseUrl: undefined }],
      /source acme-live, baseUrl is missing\.$/,
    ],
    ["an address without https", [{ ...listed, baseUrl: "http://a.test" }], /baseUrl must start with https/],
    [
      "a scheme that is unsafe",
      [{ ...listed, webhookScheme: { header: "x", signed: "" } }],
      /webhookScheme is wrong: /,
    ],
    ["a field it does not know", [{ ...listed, apikey: "x" }], /"apikey"/],
    ["a source id with capitals", [{ ...listed, sourceId: "Acme" }], /source number 1, sourceId must be/],
    [
      "a source id that is too long",
      [{ ...listed, sourceId: "a".repeat(64) }],
      /source number 1, sourceId must be/,
    ],
    ["an unknown mode", [{ ...listed, mode: "prod" }], /source acme-live, mode must be/],
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
    expect(problemsOf({ SOURCES_FILE: write("{}") })).toEqual(["SOURCES_FILE must be a list."]);
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

it("describes every variable with its value and origin, and shows no secret", () => {
  const env = {
    PORT: "5000",
    OPS_PASSWORD_FILE: write("ops password"),
    DELIVERY_LIVE_API_KEY: "dos_live_canary",
    DATABASE_URL: "postgres://user:canary@h/d",
    REDIS_URL: "redis://user:canary@h",
    ALERT_WEBHOOK_URL: "https://example.com/canary",
  };
  const rows = describeConfig(env, write("HOST=::1"));
  expect(rows.map(({ name }) => name)).toEqual(VARIABLE_NAMES);
  expect(
    Object.fromEntries(rows.map(({ name, value, source }) => [name, `${value} (${source})`])),
  ).toMatchObject({
    PORT: "5000 (environment)",
    HOST: "::1 (.env)",
    OPS_PASSWORD: "set, 12 characters (file)",
    DELIVERY_LIVE_API_KEY: "set, 15 characters (environment)",
    LOG_LEVEL: "info (default)",
    DELIVERY_BASE_URL: "not set (default)",
  });
  expect(JSON.stringify(rows)).not.toContain("canary");
});

describe("OUTGOING_WEBHOOKS_FILE", () => {
  const endpoint = { name: "erp", url: "https://erp.example.com/orders", secret: SECRET, sources: ["live"] };
  const outgoing = (...endpoints: object[]) => ({
    ...LIVE,
    OUTGOING_WEBHOOKS_FILE: write(JSON.stringify(endpoints)),
  });

  it("lists endpoints that are notified of changes, by default of all kinds", () => {
    const events = ["order.new", "order.status_changed"];
    const env = outgoing(endpoint, {
      name: "bi",
      url: "https://bi:8080/",
      secret: `${OTHER_SECRET}, ${SECRET}`,
      sources: ["live", "live"],
      events,
      statuses: ["picked_up"],
      fields: "all",
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
        definition: expect.stringMatching(/^[0-9a-f]{32}$/),
      },
      {
        endpointId: "bi",
        url: "https://bi:8080/",
        secrets: [OTHER_SECRET, SECRET],
        sourceIds: ["live"],
        types: events,
        statuses: ["picked_up"],
        fields: "all",
        ordered: true,
        rate: 5,
        definition: expect.stringMatching(/^[0-9a-f]{32}$/),
      },
    ]);
  });

  it.each([
    [
      "a source that is not configured",
      { ...endpoint, sources: ["test"] },
      /endpoint erp, sources has test, which is not/,
    ],
    ["no secret", { ...endpoint, secret: undefined }, /endpoint erp, secret is missing/],
    [
      "a secret to be guessed",
      { ...endpoint, secret: "whsec_abcd" },
      /erp, secret is wrong: .* only 3 bytes/,
    ],
    ["a secret of another format", { ...endpoint, secret: "not base64" }, /endpoint erp, secret is wrong: /],
    ["an address that is none", { ...endpoint, url: "erp" }, /endpoint erp, url must be/],
    [
      "http to another machine",
      { ...endpoint, url: "http://erp.example" },
      /endpoint erp, url must be .*https:\/\//,
    ],
    [
      "a kind of change that there is not",
      { ...endpoint, events: ["order.lost"] },
      /endpoint erp, events\.0 must be/,
    ],
    ["a name for a file", { ...endpoint, name: "../erp" }, /endpoint number 1, name must be/],
    ["something unknown", { ...endpoint, secrets: [] }, /endpoint erp has unknown fields: "secrets"/],
    ["two endpoints with the same name", [endpoint, endpoint], /lists the endpoint erp twice/],
  ])("refuses %s", (_, endpoints, problem) => {
    const problems = problemsOf(outgoing(...[endpoints].flat()));
    expect(problems).toEqual([expect.stringMatching(problem)]);
    expect(problems.join()).not.toContain(SECRET);
  });
});

it("single sign-on follows the variables, and is off without them", () => {
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
      return problems.length > 0 ? problems : describeConfig(env, null);
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
    const env = { ALERT_WEBHOOK_SECRET: SECRET, PUBLIC_URL: "https://mirror.example.com" };
    expect(problemsOf({ ...env, [name]: "https://me:hush-hush@example.com" })).toContainEqual(
      expect.stringMatching(`^${name} must .* without a user`),
    );
  });
});
