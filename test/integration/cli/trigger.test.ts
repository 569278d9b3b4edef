import { afterAll, expect, it } from "vitest";
import { askSandbox, findSandbox } from "../../../src/cli/commands/sandbox.ts";
import { ConfigurationError, UnavailableError } from "../../../src/domain/errors.ts";
import type { Config } from "../../../src/config/config.ts";
import { startSandbox } from "../../../src/sandbox/startSandbox.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { serve } from "../../support/http/serve.ts";

const { database } = await openTestDatabase();
const sandbox = await startSandbox({ databaseUrl: database.url, host: "127.0.0.1", port: 0, seed: 1 });
afterAll(() => sandbox.close());

const trigger = (scenario: string, body: object = {}) =>
  askSandbox<{ reference: string; from: string; to: string }>(sandbox.url, {
    path: "/scenarios",
    body: { scenario, ...body },
  });

it("rejects an unknown scenario, order or field", async () => {
  await expect(trigger("nonsense")).rejects.toThrow("Known scenarios: lost-webhook,");
  await expect(trigger("lost-webhook", { reference: "NOPE" })).rejects.toThrow("has this reference");
  await expect(trigger("duplicate", { bogus: "1" })).rejects.toBeInstanceOf(ConfigurationError);
});

it("refuses an address that is not a sandbox, and reports when nothing answers", async () => {
  const other = await serve((_req, res) => void res.json({ scenario: "x" }));
  const ask = (url: string) => askSandbox(url, { path: "/scenarios", body: { scenario: "duplicate" } });
  await expect(ask(other.url)).rejects.toThrow("is not a sandbox");
  await other.close();
  await expect(ask(other.url)).rejects.toBeInstanceOf(UnavailableError);
});

it("never sends a request to another machine", () => {
  const find = (baseUrl: string) =>
    findSandbox({ sandboxPort: 4010, sources: [{ baseUrl }] } as unknown as Config);
  for (const url of ["https://api.example.com", "http://127.0.0.1.example.com"])
    expect(find(url)).toBe("http://127.0.0.1:4010");
  expect(find("http://localhost:9")).toBe("http://localhost:9");
});
