import { execFile } from "node:child_process";
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import {
  hasDebianPostgres,
  startDebianPostgres,
  type DebianPostgres,
} from "../../support/servers/debianPostgres.ts";
import { findProgram, has, ROOT, startProgram, stopPrograms } from "../../support/programs/program.ts";
import { makeTestSandbox, type TestSandbox } from "../../support/providers/testSandbox.ts";
import { readProductionPage } from "../../support/servers/productionPage.ts";
import { canStartRedis, startRedis, type TestRedis } from "../../support/servers/redis.ts";
import { sendEvent, WEBHOOK_SECRET } from "../../support/signing/signing.ts";

const run = promisify(execFile);
const PROCESSES = ["web", "worker", "poller"] as const;
const UNITS = path.join(ROOT, "deploy/systemd");
const canRun = hasDebianPostgres && canStartRedis;
for (const [program, what] of [
  [canRun ? "sh" : "postgresql, redis-server", "the commands of docs/production.md"],
  ["systemd-analyze", "the examination of the systemd units"],
  ["docker-compose", "the check of docker-compose.yml"],
] as const) {
  // oxlint-disable-next-line no-console -- whoever runs the tests must know what they did not prove
  if (!has(program)) console.warn(`NOT RUN: ${what}; install ${program}.`);
}

let home: string;

beforeAll(async () => {
  home = await mkdtemp(path.join(tmpdir(), "order-mirror-production-"));
});
afterAll(() => rm(home, { recursive: true, force: true }));
afterEach(stopPrograms);

describe.runIf(canRun)("the page's commands, from top to bottom", () => {
  let postgres: DebianPostgres;
  let redis: TestRedis;
  let sandbox: TestSandbox;
  let secrets: string;
  let env: Record<string, string>;

  beforeAll(async () => {
    postgres = await startDebianPostgres();
    sandbox = await makeTestSandbox();
    secrets = path.join(home, "secrets");
    const bin = path.join(home, "bin");
    await mkdir(bin);
    await writeFile(
      path.join(bin, "order-mirror"),
      `#!/bin/sh\nexec "${process.execPath}" "${findProgram()}" "$@"\n`,
    );
    await chmod(path.join(bin, "order-mirror"), 0o755);
    env = {
      PATH: `${bin}:${process.env["PATH"] ?? ""}`,
      ADMIN_URL: postgres.url,
      POSTGRES: `127.0.0.1:${postgres.port}`,
      SECRETS: secrets,
      DELIVERY_BASE_URL: sandbox.url,
      DELIVERY_LIVE_API_KEY: "dos_live_sandbox",
    };
    const password = path.join(secrets, "redis-password");
    await run(path.join(ROOT, "deploy/make-secrets"), [secrets, env["POSTGRES"] ?? "", "127.0.0.1:6379"]);
    redis = await startRedis("--maxmemory-policy", "noeviction");
    const client = new Redis(redis.url);
    await client.config("SET", "requirepass", await readFile(password, "utf8"));
    await client.quit();
    env["REDIS"] = new URL(redis.url).host;
    for (const name of ["redis-url", "live-api-key", "webhook-secrets"]) await rm(path.join(secrets, name));
    await writeFile(path.join(secrets, "live-api-key"), "dos_live_sandbox");
    await writeFile(path.join(secrets, "webhook-secrets"), WEBHOOK_SECRET);
  });
  afterAll(async () => {
    await sandbox.close();
    await redis.stop();
    postgres.remove();
  });

  it("run without errors, and the processes start with their units' own commands", async () => {
    const commands = readProductionPage("sh run");
    expect(commands.length).toBeGreaterThan(4);
    await run("bash", ["-euo", "pipefail", "-c", commands.join("\n")], { cwd: ROOT, env });
    const ports = { web: await findFreePort(), worker: await findFreePort(), poller: await findFreePort() };
    for (const name of PROCESSES) {
      const unit = await readUnit(name, secrets);
      const port = name === "web" ? { PORT: String(ports.web) } : { HEALTH_PORT: String(ports[name]) };
      const program = startProgram(unit.args, {
        ...unit.env,
        DELIVERY_BASE_URL: sandbox.url,
        LOCAL_TRUST: "false",
        ...port,
      });
      await program.waitFor(new RegExp(`${name} is ready`));
      expect(program.output()).not.toMatch(/lacks rights|not a member/);
    }
    for (const name of PROCESSES) {
      const ready = async () => (await fetch(`http://127.0.0.1:${ports[name]}/readyz`)).status;
      await expect.poll(ready, { timeout: 60_000 }).toBe(200);
    }
    const token = await readFile(path.join(secrets, "api-tokens"), "utf8");
    const answer = await fetch(`http://127.0.0.1:${ports.web}/v1/orders`, {
      headers: { authorization: `Bearer ${token}` },
    });
    expect(answer.status).toBe(200);
    const event = { id: "evt_1", body: Buffer.from(JSON.stringify({ id: "evt_1" })) };
    expect(await sendEvent(`http://127.0.0.1:${ports.web}/webhooks/live`, event)).toBe(200);
  });
});

/** The command of a process's unit: its arguments, and the variables with the files of its secrets. */
async function readUnit(
  name: string,
  secrets: string,
): Promise<{ args: string[]; env: Record<string, string> }> {
  const unit = await readFile(path.join(UNITS, "order-mirror@.service"), "utf8");
  const dropIn = await readFile(path.join(UNITS, `order-mirror@${name}.service.d/secrets.conf`), "utf8");
  // Only web verifies; to the worker they name its source.
  expect([name, dropIn.includes("secrets/webhook-secrets")]).toEqual([name, name !== "poller"]);
  const settings = await readFile(path.join(ROOT, "deploy/order-mirror.env"), "utf8");
  const [, command = ""] = /^ExecStart=\S+ (.*)$/m.exec(unit) ?? [];
  const [options = "", rest = ""] = command.split("/opt/order-mirror/dist/cli/main.js");
  expect(options.trim()).toMatch(/^--max-semi-space-size=4 /);
  const files = new Map(
    [...dropIn.matchAll(/^LoadCredential=([\w-]+):\/etc\/order-mirror\/secrets\/([\w-]+)$/gm)].map(
      ([, credential = "", file = ""]) => [credential, path.join(secrets, file)],
    ),
  );
  const lines = [...`${unit}\n${dropIn}`.matchAll(/^Environment=(.*)$/gm)].flatMap(([, pairs = ""]) =>
    pairs.split(" "),
  );
  const pairs = [...settings.split("\n").filter((line) => /^[A-Z]/.test(line)), ...lines].map((pair) => {
    const at = pair.indexOf("=");
    const value = pair.slice(at + 1).replace(/^%d\/(.*)$/, (_all, credential: string) => {
      const file = files.get(credential);
      if (file === undefined) throw new TypeError(`${name}: no LoadCredential for ${credential}`);
      return file;
    });
    return [pair.slice(0, at), value] as const;
  });
  return { args: rest.trim().replaceAll("%i", name).split(" "), env: Object.fromEntries(pairs) };
}

describe.runIf(has("systemd-analyze"))("the systemd units", () => {
  it("are valid for systemd, with an exposure below 2.0", async () => {
    const units = path.join(home, "units");
    await cp(UNITS, units, { recursive: true });
    const [capture = ""] = readProductionPage("ini systemd");
    expect(capture).toContain("CAPTURE_REFUSED=10");
    await writeFile(path.join(units, "order-mirror@web.service.d/capture.conf"), capture);
    const names = (await readdir(units)).filter((name) => name.endsWith(".service"));
    for (const name of names) {
      const file = path.join(units, name);
      const text = await readFile(file, "utf8");
      // systemd checks whether the program exists.
      await writeFile(file, text.replace("/usr/bin/node", process.execPath));
    }
    const instances = names.map((name) => path.join(units, name.replace("@.", "@web.")));
    const { stderr } = await run("systemd-analyze", ["verify", ...instances]);
    expect(stderr.split("\n").filter((line) => line.includes("order-mirror"))).toEqual([]);
    for (const instance of instances) {
      const rated = await run("systemd-analyze", [
        "security",
        "--offline=true",
        "--threshold=20",
        "--no-pager",
        instance,
      ]);
      expect(rated.stdout).toContain("Overall exposure level");
    }
  });
});

it.runIf(has("docker-compose"))("Compose understands docker-compose.yml", async () => {
  const { stdout } = await run("docker-compose", ["config", "--services"], { cwd: ROOT });
  expect(stdout.trim().split("\n").sort()).toEqual([
    "migrate",
    "poller",
    "postgres",
    "valkey",
    "web",
    "worker",
  ]);
});
