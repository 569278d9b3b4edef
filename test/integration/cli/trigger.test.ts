import { afterAll, expect, it } from "vitest";
import { serve } from "../../support/http/serve.ts";
import { runCommand } from "../../support/programs/command.ts";
import { makeTestSandbox } from "../../support/providers/testSandbox.ts";

const { sandbox, close } = await makeTestSandbox();
const other = await serve((_request, response) => void response.json({ scenario: "x" }));
afterAll(async () => {
  await other.close();
  await close();
});

const KEY = { DELIVERY_LIVE_API_KEY: "dos_live_sandbox" };
const trigger = (args: readonly string[], env: Record<string, string> = {}) =>
  runCommand(["trigger", ...args], {
    env: { SANDBOX_PORT: String(sandbox.port), DATA_DIR: "/nowhere", ...env },
  });

it("says what happened to which order, what to expect, and where to look", async () => {
  const { code, stdout, stderr } = await trigger(["lost-webhook"]);
  const [, reference] = /^lost-webhook: order (DO-\w+), created → picked_up$/m.exec(stdout) ?? [];
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^ {2}Expected: The next poll brings/m)]);
  expect(stderr).toBe(
    `Next: order-mirror tail --order ${reference}\n      order-mirror order ${reference}\n`,
  );
});

it.each<[code: number, says: string, args: string[], env?: Record<string, string>]>([
  [2, "Known scenarios: lost-webhook,", ["nonsense"]],
  [2, "No order has this reference.", ["lost-webhook", "--order", "NOPE"]],
  [2, "--order needs the name of a scenario.", ["--order", "NOPE"]],
  [
    75,
    `The server on http://127.0.0.1:${other.port} is not a sandbox.`,
    ["duplicate"],
    { SANDBOX_PORT: String(other.port) },
  ],
  [75, "No sandbox answers on http://127.0.0.1:9.", ["duplicate"], { SANDBOX_PORT: "9" }],
])("exits with %i and says: %s", async (code, says, args, env) => {
  expect(await trigger(args, env)).toMatchObject({ code, stdout: "", stderr: expect.stringContaining(says) });
});

it("asks the configured provider if it is on this machine, and never another machine", async () => {
  for (const env of [
    { DELIVERY_BASE_URL: "https://api.example.com" },
    { DELIVERY_BASE_URL: "https://127.0.0.1.example.com" },
    { DELIVERY_BASE_URL: `http://localhost:${sandbox.port}`, SANDBOX_PORT: "9" },
  ])
    expect(await trigger(["duplicate", "--json"], { ...KEY, ...env })).toMatchObject({ code: 0 });
});
