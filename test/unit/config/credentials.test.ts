import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { provideCredentials } from "../../../src/config/credentials.ts";
import { withProcessLock } from "../../../src/process/processLock.ts";
import { LISTED, LIVE, TOKEN, load, makeConfigFolder, type Env } from "../../support/config/loading.ts";

const { folder, write } = makeConfigFolder();
let folders = 0;
const makeDataDir = () => path.join(folder, `data-${(folders += 1)}`, "below");
const provideIn = (dataDir: string, env: Env = {}) =>
  provideCredentials(load({ ...LIVE, DATA_DIR: dataDir, ...env }));

const PASSWORD = "a password of ours";
const ALL = ["metricsToken", "opsPassword", "opsViewerPassword"] as const;

it.each<[what: string, env: Env, tokens: readonly string[], others: readonly string[]]>([
  ["nothing", {}, ["live"], ALL],
  ["tokens", { API_TOKENS: TOKEN }, [], ALL],
  ["a password", { OPS_PASSWORD: PASSWORD }, ["live"], ["metricsToken"]],
  ["a password of viewers", { OPS_VIEWER_PASSWORD: PASSWORD }, ["live"], ["metricsToken", "opsPassword"]],
  [
    "single sign-on, and a token for metrics",
    { OPS_PROXY_ADDRESSES: "10.0.0.5", OPS_OPERATORS: "admins", METRICS_TOKEN: TOKEN },
    ["live"],
    [],
  ],
])("where %s is configured, only what is missing is created, once", async (_, env, tokens, others) => {
  const dataDir = makeDataDir();
  const { config, made, file } = await provideIn(dataDir, env);
  const { apiTokens = {}, ...named } = made ?? {};
  expect([Object.keys(apiTokens), Object.keys(named).toSorted()]).toEqual([tokens, others]);
  const secrets = [...Object.values(apiTokens), ...Object.values(named)].map(String);
  expect(secrets.filter((secret) => secret.length < 32)).toEqual([]);
  expect(new Set(secrets).size).toBe(secrets.length);
  const configured = load({ ...LIVE, DATA_DIR: dataDir, ...env });
  const ownTokens = Object.entries(apiTokens).map(([sourceId, token]) => ({
    token,
    sourceId,
    mayWrite: false,
  }));
  const whole = { ...configured, ...named, apiTokens: [...configured.apiTokens, ...ownTokens] };
  expect(config).toEqual(whole);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(await provideIn(dataDir, env)).toEqual({ config: whole, made: undefined, file });
});

it.each<[string, Env]>([
  ["tokens and a password", { API_TOKENS: TOKEN, OPS_PASSWORD: PASSWORD }],
  ["trust in this machine", { LOCAL_TRUST: "true" }],
])("where %s is configured, nothing is created", async (_, env) => {
  const dataDir = makeDataDir();
  const config = load({ ...LIVE, DATA_DIR: dataDir, ...env });
  expect(await provideCredentials(config)).toMatchObject({ config, made: undefined });
  expect(existsSync(dataDir)).toBe(false);
});

it("a source that is added gets a token of its own, and others keep theirs", async () => {
  const dataDir = makeDataDir();
  const first = await provideIn(dataDir);
  const { made, config, file } = await provideIn(dataDir, { SOURCES_FILE: write(JSON.stringify([LISTED])) });
  expect(made).toEqual({ apiTokens: { "acme-live": expect.any(String) as string } });
  expect(config.apiTokens).toMatchObject([...first.config.apiTokens, { sourceId: "acme-live" }]);
  expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject({ opsPassword: first.config.opsPassword });
  // Without it, its token opens nothing. What is configured later wins over what was created.
  expect((await provideIn(dataDir)).config).toEqual(first.config);
  const later = await provideIn(dataDir, { OPS_PASSWORD: PASSWORD, METRICS_TOKEN: TOKEN });
  expect(later.config).toMatchObject({
    opsPassword: PASSWORD,
    opsViewerPassword: null,
    metricsToken: TOKEN,
  });
});

it("processes that start in a new folder at the same moment have the same ones, which one after the other has looked for", async () => {
  const dataDir = makeDataDir();
  mkdirSync(dataDir, { recursive: true });
  const file = path.join(dataDir, "credentials.json");
  const starts = await withProcessLock(`${file}-lock`, () => {
    const begun = Array.from({ length: 3 }, () => provideIn(dataDir));
    expect(existsSync(file)).toBe(false);
    return Promise.resolve({ begun });
  });
  const provided = await Promise.all(starts.begun);
  expect(new Set(provided.map(({ config }) => config.opsPassword)).size).toBe(1);
  expect(provided.filter(({ made }) => made !== undefined)).toHaveLength(1);
});

it.each<[string, (file: string) => void, RegExp]>([
  ["another account may read", (file) => chmodSync(file, 0o604), /^Other accounts can read .*json, which/],
  ["another group may read", (file) => chmodSync(file, 0o640), /^Other accounts can read .*json, which/],
  [
    "is no JSON",
    (file) => writeFileSync(file, '{"opsPassword":"canary"'),
    /json cannot be read, or has other/,
  ],
  [
    "holds something else",
    (file) => writeFileSync(file, '{"canary":"x"}'),
    /json cannot be read, or has other/,
  ],
])("a file that %s is refused, and not shown", async (_, spoil, message) => {
  const dataDir = makeDataDir();
  const { file } = await provideIn(dataDir);
  spoil(file);
  const refused = provideIn(dataDir);
  await expect(refused).rejects.toThrow(message);
  await expect(refused).rejects.not.toThrow("canary");
  expect(existsSync(`${file}-lock`)).toBe(false);
});

it("a folder that cannot be made is named with the variables that do without", async () => {
  const dataDir = path.join(write("a file"), "below");
  await expect(provideIn(dataDir)).rejects.toMatchObject({
    name: "ConfigurationError",
    message: expect.stringMatching(/credentials\.json: a file stands in its place\.$/) as string,
    fix: expect.stringContaining("Set API_TOKENS and OPS_PASSWORD") as string,
  });
});
