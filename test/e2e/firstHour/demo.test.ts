import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, expect, it } from "vitest";
import { askSandbox } from "../../../src/cli/commands/sandbox.ts";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { runProgram, startProgram, stopPrograms } from "../../support/programs/program.ts";

const dataDir = await mkdtemp(path.join(tmpdir(), "order-mirror-demo-"));
const [port, sandboxPort] = [await findFreePort(), await findFreePort()];
const env = {
  DATA_DIR: dataDir,
  PORT: String(port),
  SANDBOX_PORT: String(sandboxPort),
  POLL_INTERVAL_SECONDS: "3",
  LOCAL_TRUST: "",
};
afterEach(stopPrograms);
afterAll(() => rm(dataDir, { recursive: true, force: true }));

interface StatusJson {
  readonly sourceId: string;
  readonly orders: number;
  readonly safeThrough: string | null;
}

const readStatus = async () =>
  JSON.parse((await runProgram(["status", "--json"], env)).stdout) as StatusJson[];

it("runs everything from an empty folder, shows events and repaired losses, explains an order, and resumes after a stop", async () => {
  const demo = startProgram(["demo"], env);
  await demo.waitFor(/Read API\s+(http:\S+)\/v1\/orders/);
  await demo.waitFor(/Access\s+everybody on this machine, without a password/);
  // `.ci/quick-start` measures how soon.
  const applied = await demo.waitFor(/webhook\s+(\S+)\s+.*applied/);
  expect(demo.output().search(/ webhook .*applied/)).toBeGreaterThan(demo.output().search(/^ {2}Ops /m));

  const [base, sandbox] = [`http://127.0.0.1:${port}/ops`, `http://127.0.0.1:${sandboxPort}`];
  // Lost can be only a change of an order that the mirror knows, to a status that the provider announces. The fleet rests,
  // so that the order keeps statuses to move to.
  await demo.waitFor(/webhook\s.*→ picked_up\s+applied/);
  await askSandbox(sandbox, { path: "/dials", body: { speed: 0 } });
  const made = await askSandbox<{ references: [string] }>(sandbox, { path: "/orders", body: {} });
  const [reference] = made.references;
  const readStatusOf = async (address: string) => (await fetch(address)).status;
  await expect.poll(() => readStatusOf(`${base}/orders/live/${reference}`), { interval: 500 }).toBe(200);
  expect((await runProgram(["trigger", "lost-webhook", "--order", reference], env)).code).toBe(0);
  // The terminal, the page and the order's timeline show it as lost and found by the poll.
  await demo.waitFor(new RegExp(`poll\\s+${reference}\\s+.*repaired\\s+no event had brought it`));
  const readText = async (path: string) =>
    (await (await fetch(base + path)).text()).replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ");
  await expect
    .poll(() => readText("/lost"), { interval: 500 })
    .toMatch(new RegExp(`${reference} live \\w+ lost poll`));
  expect(await readText(`/orders/live/${reference}`)).toContain("LOST Its event never arrived");

  // The sandbox's page leads to each order's page in the mirror.
  const page = await (await fetch(`${sandbox}/_sandbox`)).text();
  const link = /<a[^>]*href="([^"]+\/orders\/\w+\/DO-\w+)"/.exec(page)?.[1] ?? "none";
  expect(link).toMatch(new RegExp(`^${base}/orders/(live|test)/DO-`));
  await expect.poll(() => readStatusOf(link), { interval: 500 }).toBe(200);

  const order = await runProgram(["order", applied[1]!], env);
  expect(order.code).toBe(0);
  expect(order.stdout).toMatch(new RegExp(`^Order ${applied[1]}`));
  expect(order.stdout).toMatch(/webhook\s+order\.\w+\s+\w+\s+applied/);

  const [live] = await readStatus();
  expect(live).toMatchObject({ sourceId: "live" });
  expect(live!.orders).toBeGreaterThan(0);

  const ending = await demo.stop("SIGINT");
  expect(ending.signal).toBe("SIGINT");
  expect(ending.stderr).not.toMatch(/took too long/);

  const stopped = (await readStatus())[0]!;
  expect(stopped.orders).toBeGreaterThanOrEqual(live!.orders);
  const again = startProgram(["demo"], env);
  await again.waitFor(/webhook\s+\S+\s+.*applied/);
  expect((await readStatus())[0]!.orders).toBeGreaterThanOrEqual(stopped.orders);
  await again.stop("SIGINT");
});

it("ends as after SIGTERM when its output is closed, and leaves nothing running", async () => {
  const demo = startProgram(["demo"], env);
  await demo.waitFor(/Ops\s+http/);
  const postgres = path.join(dataDir, "demo/postgres/postmaster.pid");
  expect(existsSync(postgres)).toBe(true);
  demo.child.stdout?.destroy();
  const { code, signal } = await demo.ended;
  expect([code, signal]).toEqual([141, null]);
  expect(existsSync(postgres)).toBe(false);
});
