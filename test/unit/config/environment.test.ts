import path from "node:path";
import { describe, expect, it } from "vitest";
import { describeConfig, listUnknownVariables } from "../../../src/config/environment.ts";
import {
  LIVE,
  OTHER_SECRET,
  SECRET,
  TOKEN,
  VARIABLE_NAMES,
  load,
  makeConfigFolder,
  problemsOf,
} from "../../support/config/loading.ts";

const { folder, write } = makeConfigFolder();

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
});
