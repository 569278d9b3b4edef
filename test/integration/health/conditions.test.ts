import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeEach, expect, it, onTestFinished } from "vitest";
import { makeApplyQueue } from "../../../src/queue/applyQueue.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { runOnServer, findTestServer, openTestDatabase } from "../../support/servers/database.ts";
import { calls, FAULTS, poll, SOUND } from "../../support/pages/faults.ts";
import { announced, lost, emptying } from "../../support/mirror/tables.ts";
import { secondsAgo } from "../../support/pages/opsMirror.ts";
import { addSource, makeEventBody } from "../../support/mirror/orders.ts";
import { refusal, startScriptedProvider } from "../../support/providers/scriptedProvider.ts";
import { sendEvent, WEBHOOK_SECRET } from "../../support/signing/signing.ts";
import { diagnose } from "../../../src/cli/doctor/doctor.ts";
import { readHealthOnce } from "../../../src/health/health.ts";
import { loadConfig } from "../../../src/config/environment.ts";
import { systemClock, type Clock } from "../../../src/process/clock.ts";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { runCommand } from "../../support/programs/command.ts";
import { openServedMirror } from "../../support/mirror/served.ts";

const WAIT = { interval: 100 };
/** Between two records of the counts of calls. */
const FLUSH_EVERY_MS = 5_000;
const OTHER_SECRET = `whsec_${Buffer.from("another secret of the same length").toString("base64")}`;

const { database } = await openTestDatabase();
await addSource(database.pool, "live");
/** Refuses immediately: doctor would ask an unreachable one four times, with pauses. */
const provider = await startScriptedProvider();
provider.script(refusal(404, "not_found"));
const env = {
  DATABASE_URL: database.url,
  DELIVERY_BASE_URL: provider.url,
  DELIVERY_LIVE_API_KEY: "dos_live_sandbox",
  DELIVERY_LIVE_WEBHOOK_SECRETS: WEBHOOK_SECRET,
  LOCAL_TRUST: "true",
};
const surfaces = await openSurfaces(env);
afterAll(async () => {
  await surfaces.close();
  await provider.close();
});
beforeEach(() => run(SOUND));

/** The conditions that a surface shows: "critical OrderMirrorNoLeader", sorted. */
type Said = readonly string[];
const run = (statement: string) => database.pool.query(statement);
/** How many calls had this outcome, as recorded after a while, perhaps of two minutes. */
const counted = async (outcome: string) =>
  (await run(`select sum(calls)::int as calls from mirror.calls where outcome = '${outcome}'`)).rows as {
    calls: number | null;
  }[];
const everywhere = (...said: string[]) => ({
  page: said,
  status: said,
  doctor: said,
  readyz: said,
  metrics: said,
});

it.each(FAULTS.map((faults) => [faults.map(([name]) => name).join(", "), faults] as const))(
  "%s: on every surface",
  async (_names, faults) => {
    const conditions = faults.map(([name, severity]) => `${severity} OrderMirror${name}`).toSorted();
    await run(faults.map(([, , statement]) => statement).join(";"));
    // A reading that began before the faults may still be shared.
    await expect.poll(() => surfaces.look(), WAIT).toEqual(everywhere(...conditions));
  },
);

it("shows until when the mirror is complete while nothing is wrong", async () => {
  expect(await surfaces.look()).toEqual(everywhere());
  expect(await surfaces.readPage()).toMatch(/✔ All good\. Complete up to \d\d:\d\d \(1(?:&nbsp;|.)min/);
});

it("does not say that all is good while something begins to be wrong", async () => {
  expect(await printStatus(env)).toMatch(/^✔ All good\.\n/);
  await run(
    poll(
      "last_error = 'GET /v1/orders failed', trouble = 'away', failing_since = now() - interval '1 minute'",
    ),
  );
  expect(await surfaces.readPage()).toContain("Watching: Polls of live get no usable answer");
  const status = await printStatus(env);
  expect(status).toMatch(/^… Watching: Polls of live get no usable answer .* since .*\n/);
  expect(status).not.toContain("All good");
  // Not reported yet: doctor warns, without the exit code of a problem.
  expect(await readFindings(env)).toContainEqual(
    expect.objectContaining({
      check: "poller",
      level: "warning",
      sentence: expect.stringMatching(/^Watching: Polls of live get no usable answer/),
    }),
  );
});

it("reports a source that only other processes list, while a poller leads it and for a day after", async () => {
  await addSource(database.pool, "other");
  const age = (minutes: number) =>
    run(`update mirror.sources set created_at = now() - interval '${minutes} minutes' where source_id = 'other';
      insert into mirror.leases (name, holder, fence, expires_at, server)
      values ('poll:other', 'host:2', 1, now() - interval '${minutes} minutes', '')
      on conflict (name) do update set expires_at = excluded.expires_at`);
  await age(50);
  expect(await surfaces.look()).toEqual(everywhere("critical OrderMirrorNoLeader"));
  await age(1_441);
  expect(await surfaces.look()).toEqual(everywhere());
});

it("reports everywhere that no webhook has come, until the source is listed without a secret, and then that some come", async () => {
  await run(`${emptying("webhook_hours calls inbox")}; ${lost(3, "20 minutes", { counted: false })}`);
  expect(await surfaces.look()).toEqual(everywhere("critical OrderMirrorEventsNeverCame"));
  // As the remedy says.
  const { DELIVERY_LIVE_WEBHOOK_SECRETS: _secret, DELIVERY_LIVE_API_KEY: _key, ...without } = env;
  const file = path.join(await mkdtemp(path.join(tmpdir(), "sources-")), "sources.json");
  await writeFile(file, JSON.stringify([{ sourceId: "live", mode: "live" }]));
  const deaf = await openSurfaces({ ...without, SOURCES_FILE: file });
  onTestFinished(() => deaf.close());
  expect(await deaf.look()).toEqual(everywhere());
  const order = { reference: "R1", status: "assigned", updatedAt: secondsAgo(5) };
  const body = makeEventBody({ id: "evt_1", order });
  for (let n = 0; n < 3; n += 1)
    expect(await sendEvent(`${deaf.url}/webhooks/live`, { id: `evt_${n}`, body })).toBe(404);
  await expect.poll(() => counted("no_secret"), WAIT).toEqual([{ calls: 3 }]);
  expect(await deaf.look()).toEqual(everywhere("critical OrderMirrorNoSecret"));
  expect(await deaf.readPage()).toContain("Every webhook of live is answered 404 (3 calls)");
  await run(emptying("calls"));
});

it("reports everywhere that all webhooks are refused while polling finds their changes", async () => {
  const url = `${surfaces.url}/webhooks/live`;
  const order = { reference: "R1", status: "assigned", updatedAt: secondsAgo(5) };
  const body = makeEventBody({ id: "evt_1", order });
  for (let n = 0; n < 4; n += 1)
    expect(await sendEvent(url, { id: `evt_${n}`, body }, OTHER_SECRET)).toBe(401);
  await expect.poll(() => counted("wrong_signature"), WAIT).toEqual([{ calls: 4 }]);
  // The state two minutes later.
  await run(
    `update mirror.calls set minute = minute - interval '3 minutes';
    update mirror.sources set event_grace = '5 minutes';` + lost(1, "1 minute", { counted: false }),
  );
  expect(await surfaces.look()).toEqual(everywhere("critical OrderMirrorWebhooksRefused"));
  expect(await surfaces.readPage()).toContain("Every webhook of live is refused (4 calls)");

  expect(await sendEvent(url, { id: "evt_9", body })).toBe(200);
  await run(emptying("pending"));
  expect(await surfaces.look()).toEqual(everywhere());
  // Written later; it would be an event of the next test.
  await expect.poll(() => counted("accepted"), WAIT).toEqual([{ calls: 1 }]);
});

it("reports everywhere that calls come without the header of the scheme, before any event has arrived", async () => {
  await run(emptying("webhook_hours calls inbox"));
  const unsigned = (agent: string) =>
    fetch(`${surfaces.url}/webhooks/live`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "user-agent": agent,
        "x-courier-signature": "sha256=00",
      },
      body: "{}",
    });
  expect((await unsigned("order-mirror-doctor")).status).toBe(401);
  // Every other surface that was looked at has called, too.
  await expect.poll(async () => (await counted("other"))[0]?.calls, WAIT).toBeGreaterThan(0);
  for (let n = 0; n < 3; n += 1) expect((await unsigned("a provider")).status).toBe(401);
  await expect.poll(() => counted("unsigned"), WAIT).toEqual([{ calls: 3 }]);
  expect(await surfaces.look()).toEqual(everywhere("critical OrderMirrorWebhooksRefused"));
  expect(await surfaces.readPage()).toContain("they come without the header that WEBHOOK_SCHEME signs with");
  expect(await printStatus(env)).toContain("order-mirror identify-signature");
  await run(emptying("calls"));
});

it("starts with a secret of another scheme, refuses events, and doctor says so", async () => {
  const wrong = { ...env, DELIVERY_LIVE_WEBHOOK_SECRETS: "plain text, of no scheme" };
  const foreign = await openSurfaces(wrong);
  onTestFinished(() => foreign.close());
  const event = { id: "evt_1", body: Buffer.from("{}") };
  expect(await sendEvent(`${foreign.url}/webhooks/live`, event)).toBe(401);
  await expect.poll(() => counted("wrong_signature"), WAIT).toEqual([{ calls: 1 }]);
  expect(await readFindings(wrong)).toContainEqual(
    expect.objectContaining({
      check: "configuration",
      level: "problem",
      sentence: expect.stringMatching(/every event is refused\. Webhook secret 1 is not base64/),
    }),
  );
  await run(emptying("calls"));
});

const outage = (begun: string) => `
  insert into mirror.calls values ('live', 'webhook', date_trunc('minute', now()), 'not_stored', 9, now() - interval '${begun}');`;
const ANNOUNCED_AFTER_ALL = `
  insert into mirror.history (source_id, reference, via, verdict, version, status, previous_status, seen_at)
  select source_id, reference, 'webhook', 'duplicate', version, status, previous_status, seen_at + interval '30 seconds'
  from mirror.history where reference = 'R1'`;

it.each<[what: string, statement: string, ...Said]>([
  ["calls that could not be stored in an outage that is over", outage("61 seconds")],
  [
    "an outage that begins, not counted from an earlier one",
    calls("not_stored", 9) + "update mirror.calls set last_at = now() - interval '5 minutes';" + outage("0"),
  ],
  ["what one poll found between two events", announced(900) + lost(3, "2 seconds")],
  ["what only polls find", announced(900) + lost(3, "11 seconds"), "critical OrderMirrorEventsStopped"],
  // A test, or an event that the provider sends once more, is no row of the inbox.
  ["what polls found until a call came", announced(900) + lost(3, "11 seconds") + calls("accepted", 1)],
  ["calls that strangers forged", calls("wrong_signature", 5)],
  [
    "forged calls, beside a change that was announced after all",
    calls("wrong_signature", 5) + lost(1, "2 minutes", { counted: false }) + ANNOUNCED_AFTER_ALL,
  ],
])("is judged by what happened: %s", async (_what, statement, ...said) => {
  await run(statement);
  const sources = [{ sourceId: "live" }];
  const { holding } = await readHealthOnce({ pool: database.pool, clock: systemClock, sources });
  expect(readConditions({ conditions: holding.map(({ condition }) => condition) })).toEqual(said);
});

it("advises a margin by what the list showed late, and not by what only a verification or a forged event says", async () => {
  const ago = (seconds: number) => `mirror.nanos_of(now() - interval '${seconds} seconds')`;
  await run(`${poll("margin_seconds = 30")}
    insert into mirror.coverage_breaches (source_id, since, until, kind, reference, version, found_by, detail)
    values ('live', 1, 2, 'missed_change', 'DO-1', ${ago(346)}, 'poll', 'x'),
      ('live', 1, 2, 'missed_change', 'DO-2', ${ago(9_000)}, 'verify', 'x'),
      ('live', 1, 2, 'late_event', 'DO-3', ${ago(9_000)}, 'refetch', 'x');
    insert into mirror.history (source_id, reference, via, verdict, version)
    select source_id, reference, 'webhook', 'refuted', version from mirror.coverage_breaches where kind = 'late_event'`);
  expect(await surfaces.readPage()).toContain("set POLL_MARGIN_SECONDS=540");
  await run("update mirror.coverage_breaches set found_by = 'verify'");
  expect(await surfaces.readPage()).toContain("raise POLL_MARGIN_SECONDS.");
});

it("reports everywhere that a job failed for good, until its failure is 15 minutes old", async () => {
  const condition = "warning OrderMirrorDeadJobs";
  const queue = await makeApplyQueue({
    mirrorId: "test",
    databaseUrl: database.url,
    redisUrls: [],
    logger: silentLogger,
  });
  onTestFinished(() => queue.close());
  const worker = await queue.consume(() => Promise.reject(new Error("the job cannot be done")));
  await queue.bull.add("apply", { seqs: [1] }, { attempts: 1 });
  await expect.poll(() => queue.bull.getFailedCount(), WAIT).toBe(1);
  await worker.close();
  expect(await surfaces.look()).toEqual(everywhere(condition));
  expect(await surfaces.readPage()).toContain("Jobs of the queue apply failed for good.");
  await run("update bullmq.job set finished_at_ms = finished_at_ms - 900001 where state = 'failed'");
  expect(await surfaces.look()).toEqual(everywhere());
});

it("reports everywhere that Postgres is read-only", async () => {
  const condition = "critical OrderMirrorNotWritable";
  const name = new URL(database.url).pathname.slice(1);
  const makeReadOnly = async (readOnly: boolean) => {
    await runOnServer(
      findTestServer(),
      `alter database ${name} set default_transaction_read_only = ${readOnly}`,
    );
    // The setting is for new connections.
    await runOnServer(
      findTestServer(),
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`,
    );
  };
  await makeReadOnly(true);
  await expect.poll(() => surfaces.look(), WAIT).toEqual(everywhere(condition));
  expect(await surfaces.readPage()).toContain("Postgres is read-only");
  await makeReadOnly(false);
  await expect.poll(() => surfaces.look(), WAIT).toEqual(everywhere());
});

/** The real web process over a database, with everything else that shows the mirror's state. */
async function openSurfaces(env: Record<string, string>) {
  const whole = { ...env, PORT: String(await findFreePort()) };
  const config = loadConfig(whole, null);
  const databaseUrl = env["DATABASE_URL"] ?? "";
  // Makes cached readings outdated at the next check, and writes the counts of calls down at once.
  let heldBackMs = 0;
  const clock: Clock = {
    ...systemClock,
    monotonicMs: () => systemClock.monotonicMs() + heldBackMs,
    sleep: (ms, ...rest) => systemClock.sleep(ms === FLUSH_EVERY_MS ? 100 : ms, ...rest),
  };
  const { url, close } = await openServedMirror({ config, databaseUrl, clock });
  const readText = async (path: string) => (await fetch(url + path)).text();

  return {
    /** Address of the web process. */
    url,
    /** What page, status, doctor, readiness and metrics show now, each separately. */
    async look() {
      heldBackMs += 10_000;
      const [page, status, doctor, readyz, metrics] = await Promise.all([
        readText("/ops"),
        readStatus(whole),
        readDoctor(whole),
        readText("/readyz?verbose"),
        readText("/metrics"),
      ]);
      return {
        page: findAll(page, /class="(\w+)" data-condition="(\w+)"/g),
        status,
        doctor,
        readyz: readConditions(JSON.parse(readyz) as Conditions),
        metrics: findAll(
          metrics,
          /^order_mirror_condition\{condition="(\w+)",severity="(\w+)".*\} 1$/gm,
          ([name = "", severity = ""]) => `${severity} ${name}`,
        ),
      };
    },
    /** The whole text of the page as a person reads it. */
    async readPage() {
      heldBackMs += 10_000;
      return (await readText("/ops")).replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ");
    },
    close,
  };
}

interface Conditions {
  readonly conditions?: readonly { readonly name: string; readonly severity: string }[];
}

const tidy = (said: readonly string[]): Said => [...new Set(said)].toSorted();

function readConditions({ conditions = [] }: Conditions): Said {
  return tidy(conditions.map(({ name, severity }) => `${severity} ${name}`));
}

function findAll(text: string, pattern: RegExp, join = (groups: string[]) => groups.join(" ")): Said {
  return tidy([...text.matchAll(pattern)].map(([, ...groups]) => join(groups)));
}

async function readStatus(env: Record<string, string>): Promise<Said> {
  const sources = JSON.parse(await printStatus(env, "--json")) as Conditions[];
  return tidy(sources.flatMap(readConditions));
}

/** What `order-mirror status` prints. */
async function printStatus(env: Record<string, string>, ...options: string[]): Promise<string> {
  const databaseUrl = env["DATABASE_URL"] ?? "";
  return (await runCommand(["status", ...options], { databaseUrl, env })).stdout;
}

/** What `order-mirror doctor` finds, in this process. */
async function readFindings(env: Record<string, string>) {
  const readConfig = () => loadConfig(env, null);
  return (await diagnose({ readConfig, publicUrl: null })).findings;
}

async function readDoctor(env: Record<string, string>): Promise<Said> {
  const findings = await readFindings(env);
  const severity = { ok: "ok", warning: "warning", problem: "critical" };
  return tidy(
    findings.flatMap(({ condition, level }) =>
      condition === undefined ? [] : [`${severity[level]} ${condition}`],
    ),
  );
}
