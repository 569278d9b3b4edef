import { spawn, type ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, expect, it, vi } from "vitest";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { ROOT, watchProgram } from "../../support/programs/program.ts";

/** A .env file would point the demo at the developer's own database. */
const hasSettings = existsSync(path.join(ROOT, ".env"));
if (hasSettings) process.stderr.write("NOT RUN: `npm start` of a new checkout; there is a .env.\n");

let child: ChildProcess | undefined;
let dataDir: string | undefined;

afterEach(async () => {
  if (child?.pid !== undefined && child.exitCode === null && child.signalCode === null) {
    process.kill(-child.pid, "SIGKILL");
  }
  if (dataDir !== undefined) await rm(dataDir, { recursive: true, force: true });
});

it.skipIf(hasSettings)(
  `npm start applies a first order by itself, and ends by Ctrl-C within twenty seconds${hasSettings ? " (skipped: there is a .env)" : ""}`,
  async () => {
    dataDir = await mkdtemp(path.join(tmpdir(), "order-mirror-npm-start-"));
    const [port, sandboxPort] = [await findFreePort(), await findFreePort()];
    const { PATH = "", HOME = "" } = process.env;
    const env = { PATH, HOME, DATA_DIR: dataDir, PORT: String(port), SANDBOX_PORT: String(sandboxPort) };
    // A separate process group: Ctrl-C in a terminal reaches npm, its shell and the program.
    const npm = watchProgram(spawn("npm", ["start"], { cwd: ROOT, env, detached: true }));
    child = npm.child;
    const endedTooEarly = npm.ended.then(() => Promise.reject(new Error(`it ended:\n${npm.output()}`)));
    endedTooEarly.catch(() => undefined);

    const countOrders = async () => {
      const response = await fetch(`http://127.0.0.1:${port}/v1/orders`).catch(() => undefined);
      if (response?.status !== 200) return 0;
      return ((await response.json()) as { data: unknown[] }).data.length;
    };
    const firstOrder = vi.waitFor(async () => expect(await countOrders()).toBeGreaterThan(0), {
      timeout: 120_000,
      interval: 250,
    });
    await Promise.race([firstOrder, endedTooEarly]);

    const startedMs = performance.now();
    process.kill(-npm.child.pid!, "SIGINT");
    // npm exits with the shell's code for the signal, or by the signal; a shell shows 130 for both.
    const { code, signal } = await npm.ended;
    expect([130, "SIGINT"]).toContain(code ?? signal);
    expect(performance.now() - startedMs).toBeLessThan(20_000);
    expect(npm.output()).toContain(`http://127.0.0.1:${port}/ops`);
  },
);
