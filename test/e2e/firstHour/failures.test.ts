import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { createDatabase, withDatabase, openTestDatabase } from "../../support/servers/database.ts";
import { listenHere } from "../../support/http/serve.ts";
import { runCommand } from "../../support/programs/command.ts";
import { runProgram, startProgram, stopPrograms } from "../../support/programs/program.ts";
import { WEBHOOK_SECRET } from "../../support/signing/signing.ts";

const { database } = await openTestDatabase();

const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-failures-"));
afterEach(stopPrograms);
afterAll(() => rm(folder, { recursive: true, force: true }));

const PROVIDER = {
  DELIVERY_BASE_URL: "http://127.0.0.1:9",
  DELIVERY_LIVE_API_KEY: "dos_live_0123456789",
  DELIVERY_LIVE_WEBHOOK_SECRETS: WEBHOOK_SECRET,
};

it("refuses an older Node in one sentence", async () => {
  const pretend = "Object.defineProperty(process.versions, 'node', { value: '18.20.8' })";
  const { code, stderr } = await startProgram(
    ["status"],
    {},
    { nodeOptions: ["--import", `data:text/javascript,${pretend}`] },
  ).ended;
  expect(stderr).toBe(
    "order-mirror: Node 18.20.8 is too old.\n  fix: Install Node 20.19 or newer, preferably the current LTS.\n",
  );
  expect(code).toBe(2);
});

describe("a wrong configuration exits with 2 and says what is wrong, without a secret", () => {
  const WRONG = {
    ...PROVIDER,
    DELIVERY_LIVE_API_KEY: "dos_test_0123456789",
    PORT: "http",
    POLL_MARGIN_SECONDS: "-3",
    WEBHOOK_SCHEME: "rot13",
  };
  const dataDir = path.join(folder, "occupied");
  const withPassword = (password: string) => {
    const url = new URL(database.url);
    url.password = password;
    return url.href;
  };
  beforeAll(async () => {
    await createDatabase(database.url, "without_migrations");
    await mkdir(path.join(dataDir, "postgres"), { recursive: true });
    await writeFile(path.join(dataDir, "postgres", "letter.txt"), "dear");
  });

  it.each<[string, string[], Record<string, string>, RegExp]>([
    [
      "all its problems together",
      ["up"],
      { ...WRONG, DATABASE_URL: database.url },
      /(?=.*DELIVERY_LIVE_API_KEY)(?=.*PORT)(?=.*POLL_MARGIN_SECONDS)(?=.*WEBHOOK_SCHEME)/s,
    ],
    ["no source", ["up"], { DATABASE_URL: database.url }, /DELIVERY_LIVE_API_KEY|DELIVERY_TEST_API_KEY/],
    ["an unknown command", ["stauts"], {}, /status/],
    ["an unknown option", ["status", "--jsno"], {}, /--jsno/],
    [
      "a database that lacks migrations",
      ["worker"],
      { ...PROVIDER, DATABASE_URL: withDatabase(database.url, "without_migrations") },
      /order-mirror migrate/,
    ],
    [
      "a missing database",
      ["status"],
      { DATABASE_URL: withDatabase(database.url, "nowhere") },
      /no database nowhere/,
    ],
    [
      "a wrong password",
      ["status"],
      { DATABASE_URL: withPassword("sesame-0123456789") },
      /refused the user or password/,
    ],
    ["a DATA_DIR with other content", ["migrate"], { DATA_DIR: dataDir }, /not a Postgres data folder/],
  ])("%s", async (_what, args, env, message) => {
    // A role that begins to start would leave its listeners in this process.
    const ending = args[0] === "worker" ? await runProgram(args, env) : await runCommand(args, { env });
    expect(ending).toMatchObject({ code: 2, stdout: "" });
    expect(ending.stderr).toMatch(message);
    expect(ending.stderr).not.toContain("0123456789");
  });
});

it("an unavailable server exits with 75, in one sentence with the fix", async () => {
  const { port, close } = await listenHere(createServer());
  const nowhere = `postgres://u:sesame@127.0.0.1:${await findFreePort()}/x`;
  for (const [env, says] of [
    [{ DATABASE_URL: nowhere }, /Postgres at 127\.0\.0\.1:\d+ cannot be reached[^]*fix: /],
    [
      { DATABASE_URL: database.url, PORT: String(port) },
      new RegExp(`Port ${port} on 127\\.0\\.0\\.1 is taken[^]*set PORT`),
    ],
  ] as const) {
    const ending = await runProgram(["up"], { ...PROVIDER, ...env });
    expect(ending).toMatchObject({ code: 75, stdout: "", stderr: expect.stringMatching(says) });
    expect(ending.stderr).not.toContain("sesame");
  }
  await close();
});
