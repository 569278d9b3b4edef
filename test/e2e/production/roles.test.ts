import path from "node:path";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { createDatabase, runOnServer, withDatabase } from "../../support/servers/database.ts";
import {
  runProgram,
  startProgram,
  stopPrograms,
  type RunningProgram,
} from "../../support/programs/program.ts";
import { makeTestSandbox, orderBody, receiveEvents } from "../../support/providers/testSandbox.ts";
import { sendEvent, WEBHOOK_SECRET } from "../../support/signing/signing.ts";
import { emptying } from "../../support/mirror/tables.ts";
import { startOwnPostgres } from "../../support/servers/ownPostgres.ts";
import { logIn } from "../../support/http/serve.ts";

const PASSWORD = "a password of the tests";
const DATABASE = "mirror_of_roles";
/** The server begins each error with the login, so that the log can be read by login. */
const LOG_PREFIX = "%u|";

const PROCESSES = ["web", "worker", "poller"] as const;
type ProcessName = (typeof PROCESSES)[number];
type Login = ProcessName | "owner" | "reader";

const sandbox = await makeTestSandbox();
const server = await startOwnPostgres();

/** The mirror's address for a login. */
function urlOf(who: Login): string {
  const url = new URL(withDatabase(server.url, DATABASE));
  url.username = `mirror_${who}`;
  url.password = encodeURIComponent(PASSWORD);
  return url.href;
}
const query = (who: Login, sql: string) => runOnServer(urlOf(who), sql);

/** A mirror whose owner has no further rights, and a login for each process. */
async function createLogins(): Promise<void> {
  const administer = (sql: string) => runOnServer(withDatabase(server.url, DATABASE), sql);
  await runOnServer(server.url, `create role mirror_owner login createrole password '${PASSWORD}'`);
  await createDatabase(server.url, DATABASE);
  await runOnServer(server.url, `alter database ${DATABASE} owner to mirror_owner`);
  // Twice, because it runs again after every migration.
  for (let time = 1; time <= 2; time += 1)
    await runProgram(["migrate", "--roles"], { DATABASE_URL: urlOf("owner") });
  await administer(`alter system set log_line_prefix = '${LOG_PREFIX}'`);
  await administer("select pg_reload_conf()");
  for (const name of [...PROCESSES, "reader"])
    await administer(`create role mirror_${name} login password '${PASSWORD}' in role order_mirror_${name}`);
  await administer("grant order_mirror_retention to mirror_worker");
}

/** What the server refused a process. */
async function listRefusals(): Promise<readonly string[]> {
  const entries = (await server.readLog()).split(/^(?=mirror_\w+\|)/m);
  const ofProcess = (entry: string) => PROCESSES.some((name) => entry.startsWith(`mirror_${name}|`));
  return entries.filter((entry) => ofProcess(entry) && /permission denied|must be owner/.test(entry));
}

beforeAll(createLogins);
afterEach(stopPrograms);
afterAll(async () => {
  await sandbox.close();
  await server.remove();
});

it("web, worker and poller do their work with the rights of their own roles", async () => {
  const port = await findFreePort();
  const endpoint = await receiveEvents();
  const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-roles-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const endpointsFile = path.join(folder, "outgoing.json");
  await writeFile(
    endpointsFile,
    JSON.stringify([{ name: "erp", url: endpoint.url, secret: WEBHOOK_SECRET, sources: ["live"] }]),
  );
  const env = {
    HOST: "127.0.0.1",
    PORT: String(port),
    DELIVERY_BASE_URL: sandbox.url,
    DELIVERY_LIVE_WEBHOOK_SECRETS: WEBHOOK_SECRET,
    POLL_INTERVAL_SECONDS: "1",
    POLL_MARGIN_SECONDS: "5",
    OPS_PASSWORD: "an ops password",
    ALERT_WEBHOOK_URL: "http://127.0.0.1:9/alerts",
    ALERT_WEBHOOK_SECRET: WEBHOOK_SECRET,
    EVENTS_KEPT_FOR: "P30D",
    HISTORY_KEPT_FOR: "P30D",
    CHANGES_KEPT_FOR: "P30D",
    OUTGOING_WEBHOOKS_FILE: endpointsFile,
    LOG_FORMAT: "json",
  };
  const url = `http://127.0.0.1:${port}`;
  // As after a restore on another server: the first process begins a new epoch of the change feed.
  await query("owner", "update mirror.feed set server = '1/1', server_started = 'epoch'");
  const programs: RunningProgram[] = [];
  // The others work without the key that can order couriers, and the poller without the secret that verifies.
  const keyOf = (name: ProcessName) =>
    name === "poller" ? { DELIVERY_LIVE_API_KEY: "dos_live_sandbox", DELIVERY_LIVE_WEBHOOK_SECRETS: "" } : {};
  const healthPorts = { worker: await findFreePort(), poller: await findFreePort() };
  const healthOf = (name: ProcessName) => (name === "web" ? port : healthPorts[name]);
  for (const name of PROCESSES) {
    const program = startProgram([name], {
      ...env,
      ...keyOf(name),
      DATABASE_URL: urlOf(name),
      ...(name === "web" ? {} : { HEALTH_PORT: String(healthOf(name)) }),
    });
    await program.waitFor(new RegExp(`${name} is ready`));
    programs.push(program);
  }
  expect(await query("owner", "select from mirror.feed where server = '1/1'")).toEqual([]);
  const create = async () => (await sandbox.ask("POST", "/v1/orders", { body: orderBody() })).json.reference;
  const byPoll = await create();
  await sandbox.steer("POST", "/webhooks", {
    url: `${url}/webhooks/live`,
    secret: WEBHOOK_SECRET,
  });
  const byWebhook = await create();
  await sandbox.steer("POST", `/orders/${byWebhook}/step`);
  await sandbox.steer("POST", "/idle");
  /** Shown when a wait fails, as the likely cause. */
  const refused = () =>
    programs.flatMap((program) => program.output().match(/permission denied for [^"]*/g) ?? []);
  for (const reference of [byPoll, byWebhook]) {
    const read = async () => [(await fetch(`${url}/v1/orders/${reference}`)).status, ...refused()];
    await expect.poll(read, { timeout: 60_000 }).toEqual([200]);
  }
  const story = () => query("owner", `select distinct via from mirror.history order by via`);
  await expect.poll(story, { timeout: 60_000 }).toEqual(expect.arrayContaining([{ via: "webhook" }]));
  const proof = () => query("owner", "select from mirror.poll_state where safe_through is not null");
  await expect.poll(proof, { timeout: 60_000 }).toHaveLength(1);

  const headers = await logIn(url, "an ops password");
  for (const page of [
    "/ops",
    "/ops/orders?q=do-",
    `/ops/orders/live/${byPoll}`,
    "/ops/quarantine",
    "/ops/actions",
    "/ops/queue-health",
    "/ops/queues/api/queues",
    "/ops/sources/live",
    "/ops/gaps",
    "/ops/breaches",
    "/ops/exceptions",
    "/ops/outgoing",
    "/readyz",
  ]) {
    const read = async () => [page, (await fetch(url + page, { headers })).status];
    // On a busy machine a check of Postgres may come too late, and answers 503.
    await expect.poll(read, { timeout: 60_000 }).toEqual([page, 200]);
  }
  const press = async (button: string, form: Record<string, string> = {}) => {
    const body = new URLSearchParams(form);
    const answer = await fetch(`${url}/ops/${button}`, { method: "POST", headers, body, redirect: "manual" });
    expect([button, answer.status]).toEqual([button, 303]);
  };
  await press(`orders/live/${byPoll}/refetch`);
  // An unreadable event is quarantined, retried by a person, quarantined again and dismissed.
  await sendEvent(`${url}/webhooks/live`, { id: "msg_bad", body: Buffer.from("no JSON") });
  for (const action of ["retry", "dismiss"]) {
    const quarantined = () =>
      query("owner", "select quarantine_id::text as id from mirror.quarantine where state = 'open'");
    await expect.poll(quarantined, { timeout: 60_000 }).toHaveLength(1);
    const id = String((await quarantined())[0]?.["id"]);
    await press(`quarantine/${action}`, { id, through: id, because: "made up" });
  }
  await query("owner", "update mirror.sources set paused_at = clock_timestamp()");
  await press("resume", { source: "live" });
  const audit = () => query("owner", "select action, affected from mirror.ops_actions order by action_id");
  expect(await audit()).toMatchObject([
    { action: "log_in" },
    { action: "refetch", affected: "1" },
    { action: "retry", affected: "1" },
    { action: "dismiss", affected: "1" },
    { action: "resume", affected: "1" },
  ]);
  // The poller removes the row after the refetch.
  const asked = () => query("owner", "select from mirror.refetches");
  await expect.poll(asked, { timeout: 60_000 }).toEqual([]);
  await expect.poll(() => endpoint.received.length, { timeout: 60_000 }).toBeGreaterThan(0);
  // People pause an endpoint, and resume it.
  for (const button of ["outgoing-pause", "outgoing-resume"]) await press(button, { endpoint: "erp" });
  const changes = await fetch(`${url}/v1/changes`);
  expect(changes.status).toBe(200);
  const { next } = (await changes.json()) as { next: string };
  // What is beyond the end is known from the feed's sequence, which this login may not read.
  const beyond = next.replace(/\..*/, ".999999999");
  expect((await fetch(`${url}/v1/changes?after=${beyond}`)).status).toBe(410);
  for (const name of PROCESSES) {
    // Its first look at each table may take longer than a probe waits.
    const look = async () => {
      const answer = await fetch(`http://127.0.0.1:${healthOf(name)}/readyz?verbose`);
      return [name, answer.status, await answer.json()];
    };
    await expect.poll(look, { timeout: 60_000 }).toEqual([name, 200, expect.anything()]);
  }
  for (const program of programs) await program.stop("SIGTERM");
  expect(refused()).toEqual([]);
  expect(await listRefusals()).toEqual([]);
});

// What web may write: integration/database/logins.
describe("no process can do another process's work", () => {
  it.each<[Login, string]>([
    ["worker", "insert into mirror.inbox (source_id) values ('live')"],
    ["worker", "update mirror.inbox set source_id = 'test'"],
    ["worker", "delete from mirror.orders"],
    ["worker", "update mirror.history set verdict = 'applied'"],
    ["worker", "select from mirror.ops_sessions"],
    ["worker", "update mirror.poll_state set safe_through = 1"],
    ["poller", "insert into mirror.inbox (source_id) values ('live')"],
    ["poller", "delete from mirror.orders"],
    ["poller", "delete from mirror.history"],
    ["poller", "select from mirror.ops_sessions"],
    ["poller", "select from bullmq.job"],
    ["reader", "select from mirror.orders"],
    ["reader", "select from mirror.inbox"],
    ["reader", "select from bullmq.job"],
  ])("%s: %s", async (who, sql) => {
    await expect(query(who, sql)).rejects.toMatchObject({ code: "42501" });
  });

  it.each<Login>([...PROCESSES, "reader"])("%s: no table, schema, role or file of its own", async (who) => {
    for (const sql of [
      "create table mirror.x ()",
      "create schema x",
      "create role x",
      emptying("orders"),
      "drop table mirror.orders",
      "alter table mirror.orders disable trigger all",
      "copy mirror.sources to program 'true'",
    ]) {
      await expect(query(who, sql)).rejects.toMatchObject({ code: expect.stringMatching(/^(42501|25006)$/) });
    }
  });
});
