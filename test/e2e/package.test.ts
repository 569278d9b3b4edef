import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startSandbox } from "../../src/sandbox/startSandbox.ts";
import type { Sandbox } from "../../src/sandbox/startSandbox.ts";
import { openContractMirror } from "../support/contractMirror.ts";
import type { ContractMirror } from "../support/contractMirror.ts";
import { makeTestDatabase } from "../support/database.ts";
import type { TestDatabase } from "../support/database.ts";
import { orderBody, TEST } from "../support/testSandbox.ts";

const ROOT = path.resolve(import.meta.dirname, "../..");
const run = promisify(execFile);

let folder: string;
let database: TestDatabase;
let sandbox: Sandbox;
let mirror: ContractMirror;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "order-mirror-package-"));
  await installPacked();
  database = await makeTestDatabase();
  sandbox = await startSandbox({ databaseUrl: database.url, port: 0, seed: 1, speed: 0 });
  mirror = await openContractMirror(database, sandbox.url);
});
afterAll(async () => {
  await mirror.close();
  await sandbox.close();
  await database.drop();
  await rm(folder, { recursive: true, force: true });
});

/** As npm installs the packed package, but with this project's own dependencies, so that nothing is downloaded. */
async function installPacked(): Promise<void> {
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", folder], { cwd: ROOT });
  const [packed] = JSON.parse(stdout) as [{ filename: string }];
  const home = path.join(folder, "node_modules", "order-mirror");
  await mkdir(home, { recursive: true });
  await run("tar", ["-xzf", path.join(folder, packed.filename), "-C", home, "--strip-components=1"]);
  await symlink(path.join(ROOT, "node_modules"), path.join(home, "node_modules"));
  await writeFile(path.join(folder, "package.json"), JSON.stringify({ type: "module" }));
}

it("is imported by its name, and its client speaks to the provider and to the mirror", async () => {
  const program = `
    import { createClient } from "order-mirror";
    import { OrderNotFoundError } from "order-mirror/errors";
    import { formatInstant } from "order-mirror/instant";
    const [providerUrl, key, mirrorUrl, token, body] = process.argv.slice(2);
    const provider = createClient({ baseUrl: providerUrl, apiKey: key });
    const mirror = createClient({ baseUrl: mirrorUrl, apiKey: token, paced: false });
    const made = await mirror.createOrder(JSON.parse(body));
    const { reference } = made.snapshot.fields;
    const texts = await Promise.all([provider, mirror].map(async (client) => (await client.getOrder(reference)).snapshot.raw));
    const missing = await mirror.getOrder("none").catch((error) => error instanceof OrderNotFoundError);
    const { elements } = await mirror.listOrders({ limit: 5 });
    const branches = await mirror.listBranches();
    console.log(JSON.stringify({
      alike: texts[0] === texts[1], missing, listed: elements.length, branches: branches.data.length > 0,
      updatedAt: formatInstant(made.snapshot.version).length > 0,
    }));
  `;
  await writeFile(path.join(folder, "program.js"), program);
  const args = [sandbox.url, TEST, mirror.url, mirror.keys.test, JSON.stringify(orderBody())];
  const { stdout } = await run(process.execPath, ["program.js", ...args], { cwd: folder });
  expect(JSON.parse(stdout)).toEqual({
    alike: true,
    missing: true,
    listed: 1,
    branches: true,
    updatedAt: true,
  });
});

it("brings its types", async () => {
  const program = `
    import { createClient } from "order-mirror";
    import { RateLimitedError } from "order-mirror/errors";
    import { parseInstant } from "order-mirror/instant";
    const client = createClient({ baseUrl: "http://localhost:4010", apiKey: "k" });
    const since: bigint = parseInstant("2026-11-20T00:00:00Z");
    export const status: Promise<string> = client.getOrder("DO-1").then(({ snapshot }) => snapshot.fields.status);
    export const page = client.listOrders({ updatedSince: since, updatedUntil: since + 1n, status: "created" });
    export const wait = (error: unknown): number => (error instanceof RateLimitedError ? error.retryAfterMs : 0);
    // @ts-expect-error a reference is text
    void client.getOrder(1);
  `;
  await writeFile(path.join(folder, "program.ts"), program);
  const tsc = path.join(ROOT, "node_modules/typescript/bin/tsc");
  const options = ["--strict", "--noEmit", "--module", "nodenext", "--target", "es2023", "--skipLibCheck"];
  const types = ["--types", "node", "--typeRoots", path.join(ROOT, "node_modules/@types")];
  const checked = run(process.execPath, [tsc, ...options, ...types, "program.ts"], { cwd: folder });
  const output = await checked.then(
    ({ stdout }) => stdout,
    (error: { stdout?: string }) => error.stdout ?? "tsc did not run",
  );
  expect(output).toBe("");
});
