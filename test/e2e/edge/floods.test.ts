import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { countUncommitted, flood, holdBodies, makeGenuineSender } from "../../support/http/edgeAttack.ts";
import { at, makeEventBody } from "../../support/mirror/orders.ts";
import { readRssBytes } from "../../support/programs/processes.ts";
import { startRole, stopPrograms, type RunningProgram } from "../../support/programs/program.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { readCaddyfile, readProductionPage } from "../../support/servers/productionPage.ts";

// Strangers before a web process, and before the proxies of docs/production.md, with the configurations that it shows.

const EVENT_EVERY_MS = 20;
const MEBIBYTE = 1_048_576;
const NGINX = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/bin/nginx"].find((name) => existsSync(name));
const CADDY = ["/usr/bin/caddy", "/usr/local/bin/caddy"].find((name) => existsSync(name));

for (const [program, found] of Object.entries({ nginx: NGINX, caddy: CADDY }))
  if (found === undefined)
    process.stderr.write(`NOT RUN: floods through ${program}, which is not installed.\n`);

const { database } = await openTestDatabase();
let web: RunningProgram;
const home = await mkdtemp(path.join(tmpdir(), "order-mirror-proxies-"));
const backend = await findFreePort();

beforeAll(async () => {
  web = await startRole("web", { DATABASE_URL: database.url, PORT: String(backend) });
});
afterAll(async () => {
  await stopPrograms();
  await rm(home, { recursive: true, force: true });
});

/** Without certificates, which are the proxy's own matter. */
async function startNginx(): Promise<number> {
  const port = await findFreePort();
  const [page = ""] = readProductionPage("nginx");
  const server = page
    .replaceAll("127.0.0.1:3000", `127.0.0.1:${backend}`)
    .replace("443 ssl", `127.0.0.1:${port}`)
    .replaceAll(/^.*ssl_certificate.*\n/gm, "");
  const places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (n) => `${n}_temp_path ${home}/${n};`,
  );
  const user = process.getuid?.() === 0 ? "user root;" : "";
  const file = path.join(home, "nginx.conf");
  const general = `${user} daemon off; pid ${home}/nginx.pid; error_log /dev/null; events { worker_connections 8192; }`;
  await writeFile(file, `${general} http { access_log off; ${places.join(" ")} ${server} }`);
  start(NGINX ?? "", ["-c", file]);
  return port;
}

async function startCaddy(): Promise<number> {
  const port = await findFreePort();
  const config = readCaddyfile()
    .replaceAll("127.0.0.1:3000", `127.0.0.1:${backend}`)
    .replace("mirror.example.com", `http://127.0.0.1:${port}`)
    .replace("{\n", "{\n\tadmin off\n");
  const file = path.join(home, "Caddyfile");
  await writeFile(file, config);
  start(CADDY ?? "", ["run", "--config", file, "--adapter", "caddyfile"]);
  return port;
}

function start(program: string, options: readonly string[]): void {
  const child = spawn(program, options, { stdio: "ignore", env: { ...process.env, HOME: home } });
  onTestFinished(() => void child.kill("SIGTERM"));
}

const sender = makeGenuineSender();

/** Sends genuine events until `attack` is over, and expects each to be accepted and stored, in bounded memory. */
async function sendBeside(name: string, port: number, attack: () => Promise<unknown>): Promise<void> {
  let isOver = false;
  let peakBytes = 0;
  let number = 0;
  const send = async () => {
    const id = `evt_${name}_${(number += 1)}`;
    const body = makeEventBody({ id, order: { reference: id, updatedAt: at(number) } });
    return { id, status: await sender.send(port, { id, body }) };
  };
  // The first event of a program opens its connections, which may take longer than a provider waits.
  await expect.poll(send, { timeout: 60_000 }).toMatchObject({ status: 200 });
  const sent: ReturnType<typeof send>[] = [];
  const attacked = attack().finally(() => (isOver = true));
  while (!isOver) {
    sent.push(send());
    peakBytes = Math.max(peakBytes, await readRssBytes(web.child.pid ?? 0));
    await systemClock.sleep(EVENT_EVERY_MS);
  }
  await attacked;
  const answers = await Promise.all(sent);
  expect(peakBytes).toBeLessThan(250 * MEBIBYTE);
  expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
  expect(sender.refused).toBe(await countUncommitted(backend));
  const { rows } = await database.pool.query<{ id: string }>("select event_id as id from mirror.inbox");
  const stored = new Set(rows.map(({ id }) => id));
  expect(answers.filter(({ id }) => !stored.has(id))).toEqual([]);
}

const FLOOD_MS = 2_500;
/** What is sent at least; through a proxy only as much as it takes. */
const FORGED_MIN = 10_000;
type Attack = (port: number, forgedMin: number) => Promise<unknown>;
const ATTACKS: Readonly<Record<string, Attack>> = {
  "bodies that never end, 130 a second": (port) => holdBodies({ port, count: 1_000, holdMs: 1_000 }),
  "5,000 forged requests a second": (port, forgedMin) =>
    flood({ port, floodMs: FLOOD_MS, forgedMin, pipelined: false }),
};
const PACKETS: Attack = (port, forgedMin) => flood({ port, floodMs: FLOOD_MS, forgedMin, pipelined: true });

describe.each([
  {
    proxy: "no proxy",
    found: "none",
    startProxy: () => Promise.resolve(backend),
    attacks: { ...ATTACKS, "forged requests in packets": PACKETS },
  },
  { proxy: "nginx", found: NGINX, startProxy: startNginx, attacks: ATTACKS },
  { proxy: "Caddy", found: CADDY, startProxy: startCaddy, attacks: ATTACKS },
])("behind $proxy", ({ proxy, found, startProxy, attacks }) => {
  it.runIf(found).each(Object.entries(attacks))("%s refuse no genuine event", async (what, attack) => {
    const port = await startProxy();
    const isUp = async () =>
      (await fetch(`http://127.0.0.1:${port}/webhooks/none`, { method: "POST" }).catch(() => null))?.status;
    await expect.poll(isUp, { timeout: 60_000 }).toBe(404);
    await sendBeside(`${proxy}_${what.length}`.replace(" ", "_"), port, () =>
      attack(port, port === backend ? FORGED_MIN : 0),
    );
  });
});
