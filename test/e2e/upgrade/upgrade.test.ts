import { randomBytes, randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import pg from "pg";
import { afterAll, afterEach, beforeAll, expect, it, onTestFinished } from "vitest";
import { findFreePort } from "../../../src/runtime/postgres/freePort.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { makeSigner } from "../../../src/signature/sign.ts";
import { createDatabase, runOnServer, withDatabase } from "../../support/servers/createDatabase.ts";
import { findTestServer } from "../../support/servers/database.ts";
import { at, makeEventBody } from "../../support/mirror/orders.ts";
import { startProgram, stopPrograms } from "../../support/programs/program.ts";
import type { RunningProgram } from "../../support/programs/program.ts";
import { listReleases, loadRelease, makeBaseline, makeNextRelease } from "../../support/programs/releases.ts";
import type { Release } from "../../support/programs/releases.ts";

const SECRET = `whsec_${randomBytes(32).toString("base64")}`;
/** What a migration may do while the previous release still runs: only add. */
const TRIAL = {
  name: "9999_trial",
  sql: `
    create table mirror.trial (source_id text primary key references mirror.sources);
    alter table mirror.orders add column trial text not null default 'trial';
    alter table mirror.inbox add column trial jsonb;
    alter table mirror.history add column trial bigint;
    alter table mirror.pending add column trial integer not null default 0;
    create index orders_trial on mirror.orders (source_id, trial);`,
};

interface Mirror {
  readonly running: RunningProgram;
  readonly port: number;
}

const versions = await listReleases();
let home: string;
let next: string;
beforeAll(async () => {
  home = await mkdtemp(path.join(tmpdir(), "order-mirror-upgrade-"));
  next = await makeNextRelease(home, TRIAL);
});
afterEach(stopPrograms);
afterAll(() => rm(home, { recursive: true, force: true }));

async function restore(dump: string): Promise<string> {
  const server = findTestServer();
  const name = `upgrade_${randomUUID().replaceAll("-", "")}`;
  await createDatabase(server, name);
  onTestFinished(() => runOnServer(server, `drop database ${name} with (force)`));
  await runOnServer(withDatabase(server, name), dump);
  return withDatabase(server, name);
}

async function ask<Row extends pg.QueryResultRow>(url: string, sql: string): Promise<Row[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query<Row>(sql)).rows;
  } finally {
    await client.end();
  }
}

/** Everything that the mirror shows, and its form. */
const readOrders = (url: string) =>
  ask(
    url,
    "select source_id, reference, version, encode(hash, 'hex') as hash, raw::text, revision from mirror.orders order by 1, 2",
  );

const PROVIDER_AWAY = /cannot be reached|did not answer|fetch failed|ECONNREFUSED/;

/** Upgrades from a release to the next one and back under traffic. Returns the answers and the logs. */
async function upgradeFrom({ dump, program }: Release) {
  const url = await restore(dump);
  const before = await readOrders(url);
  const [source] = await ask<{ base_url: string }>(url, "select base_url from mirror.sources");
  const reference = String(before[0]?.["reference"]);
  const answers: number[] = [];
  const errors: string[] = [];
  let sent = 0;
  const start = async (main: string): Promise<Mirror> => {
    const port = await findFreePort();
    const env = {
      DATABASE_URL: url,
      // The address that the dump was made with; nothing answers there now.
      DELIVERY_BASE_URL: source?.base_url ?? "",
      DELIVERY_LIVE_API_KEY: "dos_live_0123456789",
      DELIVERY_LIVE_WEBHOOK_SECRETS: SECRET,
      PORT: String(port),
      LOG_FORMAT: "json",
    };
    const running = startProgram(["up"], env, { program: main });
    await running.waitFor(/web is ready/);
    return { running, port };
  };
  /** Sends an event, waits until it is applied, and reads an earlier order. */
  const use = async ({ port }: Mirror) => {
    const name = `U${(sent += 1)}`;
    answers.push(await sendEvent(port, name, sent));
    const isApplied = `select from mirror.orders where reference = '${name}'`;
    await expect.poll(async () => (await ask(url, isApplied)).length, { timeout: 60_000 }).toBe(1);
    answers.push((await fetch(`http://127.0.0.1:${port}/v1/orders/${reference}`)).status);
  };
  const stop = async ({ running }: Mirror) => {
    const { stderr } = await running.stop("SIGTERM");
    const lines = stderr.split("\n").filter((line) => /"level":"(?:error|fatal)"/.test(line));
    errors.push(...lines.filter((line) => !PROVIDER_AWAY.test(line)));
  };
  const run = async (main: string, ...args: string[]) =>
    (await startProgram(args, { DATABASE_URL: url }, { program: main }).ended).stdout;

  // The dump does not contain the queue's tables.
  if (program !== undefined) await run(program, "migrate");
  const older = program === undefined ? undefined : await start(program);
  if (older !== undefined) await use(older);
  const migrated = await run(next, "migrate");
  if (older !== undefined) await use(older);
  const newer = await start(next);
  await use(newer);
  if (older !== undefined) await use(older);
  await stop(newer);
  if (older !== undefined && program !== undefined) {
    // Rolls back, as after a bad release.
    await stop(older);
    const again = await start(program);
    await use(again);
    await stop(again);
  }
  const rehearsed = JSON.parse(await run(next, "rehearse", "--json")) as { equal: boolean; orders: number };
  return { before, after: await readOrders(url), migrated, rehearsed, answers, errors, sent };
}

async function sendEvent(port: number, reference: string, second: number): Promise<number> {
  const body = makeEventBody({ id: `evt_${reference}`, order: { reference, updatedAt: at(second) } });
  const sign = makeSigner({ scheme: loadScheme("standard-webhooks"), secret: SECRET });
  const signature = sign({ id: reference, body, nowSeconds: Math.floor(Date.now() / 1_000) });
  const answer = await fetch(`http://127.0.0.1:${port}/webhooks/live`, {
    method: "POST",
    headers: { "content-type": "application/json", ...signature },
    body: new Uint8Array(body),
  });
  return answer.status;
}

// Before the first release, this program is the previous one, too.
it.each(versions.length > 0 ? versions : ["this program"])(
  "from %s: its program and the next one work side by side, and the way back is open",
  async (version) => {
    const release = versions.length > 0 ? await loadRelease(version, home) : await makeBaseline(home);
    const { before, after, migrated, rehearsed, answers, errors, sent } = await upgradeFrom(release);
    expect(before.length).toBeGreaterThan(10);
    expect(migrated).toContain(TRIAL.name);
    expect(new Set(answers)).toEqual(new Set([200]));
    expect(errors).toEqual([]);
    expect(after.filter(({ reference }) => !/^U\d/.test(String(reference)))).toEqual(before);
    expect(after).toHaveLength(before.length + sent);
    expect(rehearsed).toMatchObject({ equal: true, orders: after.length });
  },
);
