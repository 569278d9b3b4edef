import { expect, it } from "vitest";
import { requireSources } from "../../../src/config/config.ts";
import {
  LIVE,
  LISTED,
  OTHER_SECRET,
  SECRET,
  TOKEN,
  VARIABLE_NAMES,
  load,
  makeConfigFolder,
  problemsOf,
  type Env,
} from "../../support/config/loading.ts";

const { write } = makeConfigFolder();
const sourcesFile = (...sources: object[]) => ({ SOURCES_FILE: write(JSON.stringify(sources)) });
/** Both sources, of a provider on this machine. */
const LOCAL = {
  DELIVERY_BASE_URL: "http://localhost:4010",
  DELIVERY_LIVE_API_KEY: "dos_live_key",
  DELIVERY_TEST_API_KEY: "dos_test_key",
};

it("loads an empty environment, without a source, and with nothing open", () => {
  expect(load()).toMatchObject({
    sources: [],
    databaseUrl: null,
    redisUrls: [],
    apiTokens: [],
    opsPassword: null,
    localTrust: false,
    signOn: null,
    alertWebhook: null,
    outgoingWebhooks: [],
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
    expect.objectContaining({ sourceId: "test", mode: "test", apiKey: "dos_test_key", webhookSecrets: [] }),
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
  for (const wrong of ["http://alerts.example", "https://me:p@alerts.example"])
    expect(problemsOf({ ...env, ALERT_WEBHOOK_URL: wrong })).toContainEqual(
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
    ...sourcesFile({ ...LISTED, webhookScheme: "stripe" }),
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
  [
    "DATABASE_URL",
    ["postgres://u:p@h/d", "postgresql://h:5432/d"],
    // Of the last three, the driver would take a part of the password for the port, and show it.
    ["mysql://h/d", "h", "postgres", "postgres://u:1/p@h/d", "postgres://u:1#p@h/d", "postgres://u:1?p@h/d"],
  ],
  [
    "DELIVERY_BASE_URL",
    [
      "https://api.example.com",
      "http://127.0.0.1:4010/base",
      "http://[::1]:4010",
      "http://sandbox.localhost",
      "https://api.example.com/v1/couriers",
    ],
    [
      ..."http://api.example.com http://127.0.0.1.example.com http://localhost.example.com http://10.0.0.1".split(
        " ",
      ),
      ..."ftp://api.example.com api.example.com https://user:password@api.example.com".split(" "),
      ..."?a=1 #a /v1 /couriers/v1/".split(" ").map((end) => `https://api.example.com${end}`),
    ],
  ],
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
    [
      "a.example",
      "https://me:p@a.example",
      "https://a.example?a=1",
      "https://a.example#a",
      "https://a.example/?",
      "ftp://a",
    ],
  ],
  [
    "REDIS_URL",
    ["redis://h", "rediss://u:p@h:6380/2", "redis://a:1,redis://b:2"],
    ["http://h", "redis://", "h:6379", "redis://u:1/p@h", "rediss://u:1#p@h:6379"],
  ],
])("accepts the limits of each range, and nothing beyond: %s", (name, good, bad) => {
  expect(good.filter((value) => problemsOf({ ...LOCAL, [name]: value }).length > 0)).toEqual([]);
  for (const value of bad) {
    const problems = problemsOf({ ...LOCAL, [name]: value });
    expect({ value, problems }).toEqual({ value, problems: [expect.stringContaining(name)] });
  }
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
  ...(
    [
      ["{}", /header: is missing/],
      ['{"header": 1}', /header: must be text/],
      ['{"header": "x-signature", "signed": "{body}", "algorithm": "md5"}', /algorithm: must be "/],
      ['{"header": "x-signature", "signed": "{body}", "colour": "red"}', /has unknown fields: "colour"/],
    ] as const
  ).map(([scheme, sentence]): [Env, RegExp] => [{ ...LIVE, WEBHOOK_SCHEME: scheme }, sentence]),
  [{ DATABASE_URL: "postgres:pw@host/db" }, /lacks the two slashes/],
  [{ DATABASE_URL: "postgres://me:p#ss@host/db" }, /in a password, write @ as %40/],
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
  [{ OPS_VIEWERS: "*" }, /^OPS_VIEWERS is set without OPS_PROXY_ADDRESSES/],
  [{ OPS_PROXY_ADDRESSES: "10.0.0.5", OPS_OPERATORS: "*" }, /^OPS_OPERATORS is \*/],
  ...["0.0.0.0/0", "::/0", "10.0.0.0/33", "fd00::/129", "proxy.internal", "10.0.0.0/8/8", ","].map(
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
  [
    {
      ...LIVE,
      ...sourcesFile({ ...LISTED, baseUrl: "http://localhost:4010" }),
      POLL_INTERVAL_SECONDS: "29.9",
    },
    /^POLL_INTERVAL_SECONDS is under 30/,
  ],
])("refuses %j", (env, message) => {
  expect(problemsOf(env)).toEqual([expect.stringMatching(message)]);
});

it("judges secrets by their scheme: of another one they may all be, and one that signs the address needs it", () => {
  expect(problemsOf({ ...LIVE, DELIVERY_LIVE_WEBHOOK_SECRETS: "not base64" })).toEqual([]);
  const square = { ...LIVE, WEBHOOK_SCHEME: "square", DELIVERY_LIVE_WEBHOOK_SECRETS: SECRET };
  expect(problemsOf(square)).toEqual([
    expect.stringMatching(/^DELIVERY_LIVE_WEBHOOK_SECRETS is wrong: .* signs the address/),
  ]);
  expect(problemsOf({ ...square, PUBLIC_URL: "https://mirror.example.com" })).toEqual([]);
});

it("makes of an address of Postgres with sslmode one that causes no warning", () => {
  const addressOf = (databaseUrl: string) => load({ DATABASE_URL: databaseUrl }).databaseUrl;
  expect(addressOf("postgres://me:p%40ss@db.example/mirror?sslmode=require&connect_timeout=3")).toBe(
    "postgres://me:p%40ss@db.example/mirror?sslmode=verify-full&connect_timeout=3",
  );
  const untouched = [
    "postgres://me@db.example/mirror?sslmode=disable",
    "postgres://me@db.example/mirror?sslmode=require&uselibpqcompat=true",
  ];
  for (const address of untouched) expect(addressOf(address)).toBe(address);
});

it("assigns a token to the source that it names, or to live, with the right to write when it has +write", () => {
  const entries = [`${TOKEN}@test`, `${TOKEN}-2`, `${TOKEN}-3@live+write`, `${TOKEN}+write`];
  expect(load({ ...LOCAL, API_TOKENS: entries.join(","), WRITE_THROUGH: "true" })).toMatchObject({
    writeThrough: true,
    apiTokens: [
      { token: TOKEN, sourceId: "test", mayWrite: false },
      { token: `${TOKEN}-2`, sourceId: "live", mayWrite: false },
      { token: `${TOKEN}-3`, sourceId: "live", mayWrite: true },
      // Without a source, the plus belongs to the token.
      { token: `${TOKEN}+write`, sourceId: "live", mayWrite: false },
    ],
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
  const writer = (sourceId: string) => ({
    ...keyless,
    writeThrough: true,
    apiTokens: [{ token: TOKEN, sourceId, mayWrite: true }],
  });
  expect(() => requireSources(writer("live"), "writing")).toThrow("The provider key is missing for live.");
  expect(() => requireSources(writer("another"), "writing")).not.toThrow();
  expect(() => requireSources({ ...writer("live"), writeThrough: false }, "writing")).not.toThrow();
  const { apiKey: _apiKey, ...unlocked } = LISTED;
  expect(load(sourcesFile(unlocked)).sources).toMatchObject([{ sourceId: "acme-live", apiKey: null }]);
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
  expect(load({ ...env, OPS_OPERATORS: "" }).signOn).toMatchObject({ operators: [], viewers: ["*"] });
});
