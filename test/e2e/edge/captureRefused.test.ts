import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, expect, it, onTestFinished } from "vitest";
import { parseScheme } from "../../../src/signature/scheme.ts";
import { makeSigner } from "../../../src/signature/sign.ts";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { at, makeEventBody } from "../../support/mirror/orders.ts";
import { logIn } from "../../support/http/serve.ts";
import { runCommand } from "../../support/programs/command.ts";
import { startRole, stopPrograms } from "../../support/programs/program.ts";
import { WEBHOOK_SECRET } from "../../support/signing/signing.ts";

/** Not a preset, so nobody could have guessed it. */
const SCHEME = parseScheme({
  algorithm: "hmac-sha512",
  header: "x-courier-proof",
  encoding: "hex",
  lead: "",
  separator: ";",
  prefix: "sig:",
  signed: "{timestamp}|{body}",
  timestamp: { part: "at:", unit: "s" },
});

afterEach(stopPrograms);

it("identify-signature finds the scheme from captured refused requests, which are accepted afterwards", async () => {
  const { database } = await openTestDatabase({ ends: onTestFinished });
  const dataDir = await mkdtemp(path.join(tmpdir(), "order-mirror-capture-"));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  const folder = path.join(dataDir, "refused-requests");
  const port = await findFreePort();
  const env = {
    DATABASE_URL: database.url,
    DATA_DIR: dataDir,
    PORT: String(port),
    DELIVERY_BASE_URL: "https://provider.example",
    DELIVERY_LIVE_API_KEY: "",
    DELIVERY_LIVE_WEBHOOK_SECRETS: WEBHOOK_SECRET,
    OPS_PASSWORD: "an ops password",
  };
  const json = { "content-type": "application/json" };
  const sign = makeSigner({ scheme: SCHEME, secrets: [WEBHOOK_SECRET] });
  let sent = 0;
  const send = async (headers?: Record<string, string>) => {
    sent += 1;
    const id = `evt_${sent}`;
    const body = makeEventBody({ id, order: { reference: id, updatedAt: at(sent) } });
    const signed = sign({ id, body, nowSeconds: Math.floor(Date.now() / 1_000) });
    const answer = await fetch(`http://127.0.0.1:${port}/webhooks/live`, {
      method: "POST",
      headers: headers ?? { ...json, ...signed },
      body: new Uint8Array(body),
    });
    return answer.status;
  };
  const kept = async () => {
    const text = await readFile(path.join(folder, "live.ndjson"), "utf8").catch(() => "");
    return text.split("\n").filter((line) => line !== "");
  };

  const identify = (more: Record<string, string> = {}, ...options: string[]) =>
    runCommand(["identify-signature", ...options], { env: { ...env, ...more } });
  const nothing = await identify();
  expect(nothing.code).toBe(2);
  expect(nothing.stderr).toContain("Set CAPTURE_REFUSED=10 where web runs");

  const capturing = await startRole("web", { ...env, CAPTURE_REFUSED: "3" });
  expect(capturing.output()).toContain("refused webhook requests are kept");
  expect(await send(json)).toBe(401);
  const seen = new Set<string>();
  const sendAndCount = async () => {
    expect(await send()).toBe(401);
    for (const line of await kept()) seen.add(line);
    return seen.size;
  };
  await expect.poll(sendAndCount, { timeout: 60_000, interval: 200 }).toBeGreaterThan(3);
  // A stranger's request, which is the newest.
  const forged = { ...json, "x-courier-proof": `at:1700000000;sig:${"ab".repeat(64)}` };
  const sendForged = async () => {
    expect(await send(forged)).toBe(401);
    return (await kept()).at(-1);
  };
  await expect.poll(sendForged, { timeout: 60_000, interval: 200 }).toContain("sig:abab");
  expect((await kept()).length).toBeLessThanOrEqual(3);
  expect(await readdir(folder)).toEqual(["live.ndjson"]);
  expect((await stat(folder)).mode & 0o777).toBe(0o700);
  expect(capturing.output()).not.toContain("evt_1");
  const { rows } = await database.pool.query("select from mirror.inbox");
  expect(rows).toEqual([]);

  const url = `http://127.0.0.1:${port}`;
  const page = await fetch(`${url}/ops/events/refused?source=live`, {
    headers: await logIn(url, env.OPS_PASSWORD),
  });
  const shown = await page.text();
  expect(shown).toMatch(
    /<p>\d kept, all without the header that the scheme signs with: the provider uses another scheme\.<\/p>/,
  );
  expect(shown).toMatch(/x-courier-proof<\/span>:\s*<span class="mono">hidden, \d+ characters/);
  expect(shown).toContain("data.status");
  expect(shown).not.toMatch(/sig:[0-9a-f]{16}|Ada|Analytical/);

  const found = await identify();
  expect(found.stderr).toMatch(/^A scheme verifies [12] of 3 refused requests of live\.$/m);
  expect(found.code).toBe(0);
  const [, setting = ""] = /^WEBHOOK_SCHEME='(.*)'$/m.exec(found.stdout) ?? [];
  expect(JSON.parse(setting)).toMatchObject({ header: "x-courier-proof", signed: "{timestamp}|{body}" });
  const wrong = await identify({ IDENTIFY_SECRET: "not of this endpoint" });
  expect(wrong.code).toBe(3);
  expect(wrong.stderr).toContain("No scheme produces this signature");
  expect((await identify({}, "--source", "test")).stderr).toContain("No refused request of test is kept");
  await capturing.stop();

  await startRole("web", { ...env, WEBHOOK_SCHEME: setting });
  expect(existsSync(folder)).toBe(false);
  expect(await send()).toBe(200);
  expect(await send({ ...json, "x-courier-proof": "at:1;sig:ab" })).toBe(401);
  expect(existsSync(folder)).toBe(false);
});
