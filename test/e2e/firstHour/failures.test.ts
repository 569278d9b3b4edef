import { createServer } from "node:net";
import { afterEach, expect, it } from "vitest";
import { makeEmptyDatabase, openTestDatabase } from "../../support/servers/database.ts";
import { listenHere } from "../../support/http/serve.ts";
import { runCommand } from "../../support/programs/command.ts";
import { LIVE_ENV, runProgram, startProgram, stopPrograms } from "../../support/programs/program.ts";

const { database } = await openTestDatabase();
afterEach(stopPrograms);

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

const WRONG = {
  ...LIVE_ENV,
  DELIVERY_LIVE_API_KEY: "dos_test_0123456789",
  PORT: "http",
  POLL_MARGIN_SECONDS: "-3",
  WEBHOOK_SCHEME: "rot13",
};
const asStranger = new URL(database.url);
[asStranger.username, asStranger.password] = ["stranger", "sesame-0123456789"];

it.each<[string, string[], Record<string, string>, RegExp]>([
  [
    "all its problems together",
    ["up"],
    WRONG,
    /(?=.*DELIVERY_LIVE_API_KEY)(?=.*PORT)(?=.*POLL_MARGIN_SECONDS)(?=.*WEBHOOK_SCHEME)/s,
  ],
  ["no source", ["up"], {}, /DELIVERY_LIVE_API_KEY|DELIVERY_TEST_API_KEY/],
  ["an unknown command", ["stauts"], {}, /status/],
  ["a stranger", ["status"], { DATABASE_URL: asStranger.href }, /refused the user or password/],
])(
  "a wrong configuration exits with 2 and says what is wrong, without a secret: %s",
  async (_what, args, env, message) => {
    const ending = await runCommand(args, { databaseUrl: database.url, env });
    expect(ending).toMatchObject({ code: 2, stdout: "", stderr: expect.stringMatching(message) });
    expect(ending.stderr).not.toContain("0123456789");
  },
);

it("a process exits with 2 where the database lacks migrations, and with 75 where its port is taken, in a sentence with the fix", async () => {
  const empty = await makeEmptyDatabase();
  const { port, close } = await listenHere(createServer());
  for (const [code, role, env, says] of [
    [2, "worker", { DATABASE_URL: empty.url }, /order-mirror migrate/],
    [75, "up", { PORT: String(port) }, new RegExp(`Port ${port} on 127\\.0\\.0\\.1 is taken[^]*set PORT`)],
  ] as const) {
    const ending = await runProgram([role], { ...LIVE_ENV, DATABASE_URL: database.url, ...env });
    expect(ending).toMatchObject({ code, stdout: "", stderr: expect.stringMatching(says) });
  }
  await close();
});
